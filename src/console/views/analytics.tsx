import { Empty, type ViewProps } from '../ui.tsx';

export function Analytics(_: ViewProps) {
  return <Empty>Nothing yet.</Empty>;
}
