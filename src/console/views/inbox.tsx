import { Empty, type ViewProps } from '../ui.tsx';

export function Inbox(_: ViewProps) {
  return <Empty>Nothing yet.</Empty>;
}
