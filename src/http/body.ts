import type { IncomingMessage } from 'node:http';
import { DomainError } from '../domain/errors.ts';
import { scheduler } from '../runtime/scheduler.ts';
import { parseJson } from './json.ts';
import { giveBack, ordinaryBytes, type RequestMemory } from './request-memory.ts';

export const maxBodyBytes = 1024 * 1024;
/** Each piece takes Node 3 µs and a buffer of its own, and a client can make it as small as a byte. */
const maxPieces = 4_096;

/** Whether the headers announce a body. A chunked one can still turn out to be empty. */
export function announcesBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0';
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false });

/**
 * Reads a JSON body, counting bytes as they arrive, so that a body without a Content-Length is bounded, too. It listens
 * to the request directly: Yoga's own limit would pipe each body through a stream.
 * @param memory counts what is held of it, until the caller releases it; its account has the turn in which it is parsed
 * @param onArrived called when all of it is there, and before it is parsed
 * @returns undefined when there is no body
 * @throws UNSUPPORTED_MEDIA_TYPE, PAYLOAD_TOO_LARGE, BAD_REQUEST, and UNAVAILABLE when too many large ones are under way
 */
export async function readJson(
  req: IncomingMessage,
  memory: RequestMemory,
  onArrived: () => Promise<void>,
): Promise<unknown> {
  const declared = req.headers['content-length'];
  if (declared !== undefined && Number(declared) > maxBodyBytes) throw tooLarge();
  if (!announcesBody(req)) return undefined;
  const chunked = req.headers['transfer-encoding'] !== undefined;
  if (!chunked) requireJson(req);
  const bytes = await readBytes(req, memory);
  await onArrived();
  if (bytes.length === 0) return undefined;
  // Only now is it known that a chunked body is not empty, and so needs a type.
  if (chunked) requireJson(req);
  if (bytes.length > ordinaryBytes) await scheduler.step(memory.accountId);
  const { length } = bytes;
  const text = textOf(bytes);
  giveBack(bytes);
  return parseJson(text, (values) => memory.growToParsed(length, values));
}

function requireJson({ headers }: IncomingMessage): void {
  const type = headers['content-type'];
  if (type === undefined || !/^application\/json[ \t]*(;.*)?$/i.test(type)) {
    throw new DomainError('UNSUPPORTED_MEDIA_TYPE', 'Send the body as `Content-Type: application/json`.');
  }
  const charset = /;[ \t]*charset *= *"?([^";]*)/i.exec(type)?.[1];
  if (charset !== undefined && !/^utf-?8 *$/i.test(charset)) {
    throw new DomainError('UNSUPPORTED_MEDIA_TYPE', 'Send the body in UTF-8.');
  }
  const { 'content-encoding': encoding = 'identity', 'transfer-encoding': transfer = 'chunked' } = headers;
  if (encoding.toLowerCase() !== 'identity' || transfer.toLowerCase() !== 'chunked') {
    throw new DomainError('UNSUPPORTED_MEDIA_TYPE', 'Send the body as it is, neither compressed nor encoded.');
  }
}

function readBytes(req: IncomingMessage, memory: RequestMemory): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    if (req.destroyed) {
      // The client disconnected before admission: no further event will come.
      reject(cutOff(undefined));
      return;
    }
    const maxLength = Number(req.headers['content-length'] ?? maxBodyBytes);
    // One buffer that grows: each piece that arrives would keep a buffer of its own, and a body can come byte by byte.
    let body: Buffer = Buffer.alloc(0);
    let size = 0;
    let pieces = 0;
    let isOver = false;
    const end = (settle: () => void): void => {
      if (isOver) return; // each request closes, also after all of its body has arrived
      isOver = true;
      settle();
      body = Buffer.alloc(0); // the request keeps its listeners, perhaps for as long as a stream lasts
    };
    const fail = (error: () => Error): void =>
      end(() => {
        giveBack(body);
        reject(error());
      });
    const append = (piece: Buffer): void => {
      const length = size + piece.length;
      if (length > maxBodyBytes) throw tooLarge();
      if (++pieces > maxPieces) {
        throw new DomainError('PAYLOAD_TOO_LARGE', `A body may arrive in at most ${maxPieces} pieces.`);
      }
      if (length > body.length) {
        const capacity = Math.min(maxLength, Math.max(length, 2 * body.length, ordinaryBytes));
        memory.growTo(capacity);
        if (length === maxLength && size === 0) {
          body = piece;
        } else {
          const grown = Buffer.allocUnsafeSlow(capacity);
          body.copy(grown, 0, 0, size);
          giveBack(body);
          body = grown;
        }
      }
      if (body !== piece) {
        piece.copy(body, size);
        giveBack(piece);
      }
      size = length;
    };
    req.on('data', (piece: Buffer) => {
      // A client reads no response while sending, so the rest is read and discarded.
      if (isOver) return giveBack(piece);
      try {
        append(piece);
      } catch (error) {
        memory.release();
        fail(() => error as Error);
      }
    });
    req.on('end', () => end(() => resolve(body.subarray(0, size))));
    req.on('error', (cause) => fail(() => cutOff(cause)));
    req.on('close', () => fail(() => cutOff(undefined)));
  });
}

function textOf(bytes: Buffer): string {
  try {
    return utf8.decode(bytes);
  } catch (cause) {
    throw new DomainError('BAD_REQUEST', 'The body is not valid UTF-8.', { cause });
  }
}

function tooLarge(): DomainError {
  return new DomainError('PAYLOAD_TOO_LARGE', 'A body may have at most 1 MiB.');
}

function cutOff(cause: unknown): DomainError {
  return new DomainError('BAD_REQUEST', 'The body ended before it was complete.', { cause });
}
