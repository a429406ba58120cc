import { errorCodes } from '../../../src/domain/errors.ts';
import type { Answer, Cut } from './connection.ts';

/** How the requests of an attack ended, and how often. */
export class Outcomes {
  readonly counts: Record<string, number> = {};

  add(outcome: string, times = 1): void {
    this.counts[outcome] = (this.counts[outcome] ?? 0) + times;
  }

  addAll({ counts }: Outcomes): void {
    for (const [outcome, count] of Object.entries(counts)) this.add(outcome, count);
  }

  addAnswer(answer: Answer | Cut): void {
    this.add(outcomeOf(answer));
  }
}

/** The status of an answer, and the first code in it. */
export function outcomeOf(answer: Answer | Cut): string {
  if (typeof answer === 'string') return answer;
  const code = /"code": ?"([A-Z_]+)"/;
  const found = code.exec(answer.start) ?? code.exec(answer.end);
  return found === null ? `${answer.status}` : `${answer.status} ${found[1]}`;
}

/** Those that the contract has: the codes of its own, and those of WebSockets and of the protocol on them. */
const closeCodes = [1000, 1002, 1003, 1007, 1008, 1009, 1012, 1013, 4290, 4400, 4401, 4403, 4408, 4409, 4429];
const ownCodes: readonly string[] = Object.keys(errorCodes).filter((code) => code !== 'INTERNAL');

/** What the attack itself has ended, or what it was not waiting for. */
export const unfinished = 'left unfinished';

/** Whether the contract has such an outcome. */
export function isDocumented(outcome: string): boolean {
  if (outcome === unfinished) return true;
  const closed = /^closed with (\d+)$/.exec(outcome)?.[1];
  if (closed !== undefined) return closeCodes.includes(Number(closed));
  const [status = '', code] = outcome.split(' ');
  if (code === undefined) return /^(101|2\d\d|304|event)$/.test(status);
  return (
    /^(200|400|401|403|404|405|408|409|410|412|413|415|422|429|431|503|event|error)$/.test(status) &&
    ownCodes.includes(code)
  );
}
