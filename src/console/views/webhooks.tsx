import { Empty, type ViewProps } from '../ui.tsx';

export function Webhooks(_: ViewProps) {
  return <Empty>Nothing yet.</Empty>;
}
