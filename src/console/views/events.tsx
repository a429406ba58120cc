import { Empty, type ViewProps } from '../ui.tsx';

export function Events(_: ViewProps) {
  return <Empty>Nothing yet.</Empty>;
}
