import { Empty, type ViewProps } from '../ui.tsx';

export function Leads(_: ViewProps) {
  return <Empty>Nothing yet.</Empty>;
}
