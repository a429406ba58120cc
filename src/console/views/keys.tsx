import { Empty, type ViewProps } from '../ui.tsx';

export function Keys(_: ViewProps) {
  return <Empty>Nothing yet.</Empty>;
}
