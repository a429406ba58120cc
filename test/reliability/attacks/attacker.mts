import { Customer } from './attacker.ts';
import { Outcomes } from './outcomes.ts';
import { attackNamed } from './table.ts';
import type { AttackerOrder } from './trial.ts';

// The attacker's process: what an attack costs who makes it is not the service's.

async function obey(order: AttackerOrder): Promise<unknown> {
  if (order.do === 'prepare') return (await attackNamed(order.name).prepare?.(new Customer(order), order.isLong)) ?? {};
  const all = new Outcomes();
  await Promise.all(
    order.attacks.map(async ({ name, target }) => {
      all.addAll(await attackNamed(name).attack(target));
    }),
  );
  return all.counts;
}

process.on('message', (order: AttackerOrder) => {
  void obey(order).then(
    (result) => process.send?.({ result }),
    (error) => process.send?.({ error: String(error?.stack ?? error) }),
  );
});
process.once('disconnect', () => process.exit());
process.send?.('ready');
