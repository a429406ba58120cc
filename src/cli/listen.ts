import { styleText } from 'node:util';
import { type Command, Option } from 'commander';
import { secrets } from '../access/secrets.ts';
import { readConfig } from '../config.ts';
import { defaultEventTypes, eventTypes } from '../domain/event-types.ts';
import { type LogEvent, streamEvents } from '../domain/events.ts';
import { systemClock } from '../server/clock.ts';
import { OperatorError } from '../server/operator-error.ts';
import { untilAskedToStop } from '../server/stop.ts';
import { ThreadedWebhookClient } from '../webhooks/threaded-client.ts';
import { reportingFileErrors } from './files.ts';
import { addExamples, printToFile } from './output.ts';
import { asAccount } from './with-ports.ts';

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
  addExamples(
    program.command('listen'),
    'listen',
    'listen --types message.received lead.captured --json',
    'listen --url http://127.0.0.1:3000/hooks',
  )
    .description('Follow the events of an account as they happen, or forward them, signed, to a local address')
    .option('--account <id>', 'the id of the account (default: the only one)')
    .option('--url <url>', 'forward each event to this address, as a webhook would receive it')
    .option('--secret <secret>', 'sign with this `whsec_…` (default: a new one, which is printed)')
    .addOption(
      new Option('--types <type...>', `only events of these types (default: ${defaultEventTypes.join(', ')})`).choices(
        eventTypes,
      ),
    )
    .option('--after <cursor>', 'start after this cursor (default: now)')
    .option('--json', 'print each event as a line of JSON')
    .action(listen);
}

async function listen(options: ListenOptions): Promise<void> {
  process.stdout.on('error', () => {}); // printLine handles it
  const forward = options.url === undefined ? undefined : forwarder(options.url, options);
  await asAccount(options.account, async (ports, caller) => {
    const subscription = await streamEvents.execute(ports, caller, {
      types: options.types ?? defaultEventTypes,
      ...(options.after === undefined ? {} : { after: options.after }),
    });
    const stream = subscription.follow();
    void untilAskedToStop(readConfig()).then(() => stream.end());
    const keepAlive = setInterval(() => {}, 60_000); // waiting for events does not keep the process alive
    // Notices go to standard error, so that standard output can be piped and holds events only.
    console.error(`Following the events of ${caller.account.name}; press Ctrl-C to stop.`);
    try {
      for await (const events of stream) {
        if (forward === undefined) {
          for (const event of events) await show(event, options);
        } else {
          // What the others are about may be erased while one is being sent, so they are read again afterwards.
          const [event, second] = events;
          if (second !== undefined) stream.giveBack(second);
          if (event !== undefined) await show(event, options, await forward.send(event));
        }
      }
    } catch (error) {
      if (error instanceof OutputClosed) return;
      throw error;
    } finally {
      clearInterval(keepAlive);
    }
    console.error(`To continue from here: --after ${stream.cursor}`);
  }).finally(() => forward?.close());
}

/** The reader of our output has gone (EPIPE), as with `head`. */
class OutputClosed extends Error {}

/** @throws OutputClosed; OperatorError if it cannot be written */
async function show(event: LogEvent, { json }: ListenOptions, answer?: string): Promise<void> {
  if (json === true) {
    await printLine(event.json);
    if (answer !== undefined) console.error(`${event.id}  ${answer}`);
    return;
  }
  const about = event.data.lead?.id ?? event.data.message?.id ?? event.conversationId ?? '';
  const [time, type] = [styleText('dim', event.timestamp), styleText('cyan', event.type.padEnd(20))];
  await printLine([time, type, event.id, about, answer ?? ''].join('  ').trimEnd());
}

/** Like `console.log`, which ignores errors of writing. */
function printLine(line: string): Promise<void> {
  return reportingFileErrors(async () => {
    if (printToFile(`${line}\n`)) return;
    await new Promise<void>((resolve, reject) => {
      process.stdout.write(`${line}\n`, (error) => {
        if (error == null) resolve();
        else reject('code' in error && error.code === 'EPIPE' ? new OutputClosed() : error);
      });
    });
  });
}

/** Sends events as webhooks are sent, but to any address and without retries: the outcome is printed. */
function forwarder(url: string, { secret: given }: ListenOptions) {
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw new OperatorError('--url must be an address such as http://127.0.0.1:3000/hooks.');
  }
  if (given !== undefined && !/^whsec_[A-Za-z0-9+/]{32,88}={0,2}$/.test(given)) {
    throw new OperatorError('--secret must be `whsec_` and 24 to 64 bytes in base64.');
  }
  const secret = given ?? secrets.generateSigningSecret();
  if (given === undefined) console.error(`Signing each event with ${secret}`);
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
