import { type Command, Option } from 'commander';
import { secrets } from '../access/secrets.ts';
import { ThreadedWebhookClient } from '../delivery/threaded-webhook-client.ts';
import { eventTypes } from '../domain/event-types.ts';
import { type LogEvent, streamEvents } from '../domain/events.ts';
import { systemClock } from '../server/clock.ts';
import { endingSignals } from '../server/stop.ts';
import { askingFiles, OperatorError } from './errors.ts';
import { asAccount } from './world.ts';

interface ListenOptions {
  readonly account?: string;
  readonly url?: string;
  readonly secret?: string;
  readonly types?: readonly string[];
  readonly after?: string;
  readonly json?: boolean;
}

const attemptMs = 15_000;

export function addListen(program: Command): void {
  program
    .command('listen')
    .description(
      'Follow the events of an account as they happen, or forward them, signed, to an address of this machine',
    )
    .option('--account <id>', 'the account; it can be left out where there is only one')
    .option('--url <url>', 'forward each event to this address, as a webhook would get it')
    .option('--secret <secret>', 'sign with this `whsec_…`; by default with one that is made and shown')
    .addOption(new Option('--types <type...>', 'only these types; by default all').choices(eventTypes))
    .option('--after <cursor>', 'begin after this cursor; by default now')
    .option('--json', 'print each event as a line of JSON')
    .action(listen);
}

async function listen(options: ListenOptions): Promise<void> {
  process.stdout.on('error', () => {}); // whoever prints is told of it
  const forward = options.url === undefined ? undefined : forwarder(options.url, options);
  await asAccount(options.account, async (world, caller) => {
    const subscription = await streamEvents.execute(world, caller, {
      ...(options.types === undefined ? {} : { types: options.types }),
      ...(options.after === undefined ? {} : { after: options.after }),
    });
    const stream = subscription.follow();
    const stopWaiting = untilStopped(() => stream.end());
    // What is said about the events goes beside them, so that they alone can be piped on.
    console.error(`Following the events of ${caller.account.name}; Ctrl-C ends it.`);
    try {
      for await (const events of stream) {
        if (forward === undefined) {
          for (const event of events) await show(event, options);
        } else {
          // While one is sent, what the others tell of may be erased: they are read again when it is their turn.
          const [event, second] = events;
          if (second !== undefined) stream.giveBack(second);
          if (event !== undefined) await show(event, options, await forward.send(event));
        }
      }
    } catch (error) {
      if (error instanceof NobodyReads) return;
      throw error;
    } finally {
      stopWaiting();
    }
    console.error(`To go on from here: --after ${stream.cursor}`);
  }).finally(() => forward?.close());
}

/** Whoever has read what is printed has ended, as `head` does when it has had enough. */
class NobodyReads extends Error {}

/** @throws NobodyReads; OperatorError when it cannot be printed */
async function show(event: LogEvent, { json }: ListenOptions, answer?: string): Promise<void> {
  if (json === true) {
    await printLine(event.json);
    if (answer !== undefined) console.error(`${event.id}  ${answer}`);
    return;
  }
  const about = event.data.lead?.id ?? event.data.message?.id ?? event.conversationId ?? '';
  await printLine([event.timestamp, event.type.padEnd(20), event.id, about, answer ?? ''].join('  ').trimEnd());
}

/** As `console.log` does, which passes over what goes wrong. */
function printLine(line: string): Promise<void> {
  return askingFiles(
    () =>
      new Promise((resolve, reject) => {
        process.stdout.write(`${line}\n`, (error) => {
          if (error == null) resolve();
          else reject('code' in error && error.code === 'EPIPE' ? new NobodyReads() : error);
        });
      }),
  );
}

/** Sends events as webhooks are sent, but to any address, and once: whoever watches sees what became of it. */
function forwarder(url: string, { secret: given }: ListenOptions) {
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw new OperatorError('--url must be an address such as http://127.0.0.1:3000/hooks.');
  }
  if (given !== undefined && !/^whsec_[A-Za-z0-9+/]{32,88}={0,2}$/.test(given)) {
    throw new OperatorError('--secret must be `whsec_` and 24 to 64 bytes in base64.');
  }
  const secret = given ?? secrets.generateSigningSecret();
  if (given === undefined) console.error(`Each event is signed with ${secret}`);
  const policy = { allowHttp: true, allowPrivate: true };
  const client = new ThreadedWebhookClient({ policy, connectMs: attemptMs, totalMs: attemptMs });
  return {
    async send(event: LogEvent): Promise<string> {
      const request = { url, id: event.id, sentMs: systemClock.now(), body: event.json, secrets: [secret] };
      const { status, error } = await client.send(request);
      return [status, error].filter((part) => part !== null).join(' ');
    },
    close: () => client.close(),
  };
}

/**
 * Calls back at the first of the ending signals, and until then keeps the program alive, which waits for nothing else.
 * @returns ends that
 */
function untilStopped(onStop: () => void): () => void {
  const alive = setInterval(() => {}, 60_000);
  for (const signal of endingSignals) process.once(signal, onStop);
  return () => {
    clearInterval(alive);
    for (const signal of endingSignals) process.off(signal, onStop);
  };
}
