import { isIP } from 'node:net';
import { availableParallelism } from 'node:os';
import * as z from 'zod';
import { originFault } from './domain/origins.ts';
import { refusing } from './domain/text.ts';

export interface Config extends DatabaseAddress {
  readonly host: string;
  readonly port: number;
  /** How many processes serve. */
  readonly workers: number;
  /** The URL at which clients reach the service, if it differs from the one it listens on. */
  readonly publicUrl: string | undefined;
  /** Origins whose pages may call with tokens. */
  readonly corsOrigins: readonly string[];
  readonly logLevel: (typeof logLevels)[number];
  /** Number of proxies in front, each appending to `X-Forwarded-For`. */
  readonly trustedProxies: number;
  readonly shutdownGraceMs: number;
  /** How long to continue serving after a stop signal, already reported as not ready. */
  readonly shutdownDelayMs: number;
  /** Events older than this are removed. */
  readonly eventRetentionMs: number;
  /** Where webhooks may be sent: to `http` URLs, and to private networks. */
  readonly webhookPolicy: { readonly allowHttp: boolean; readonly allowPrivate: boolean };
  readonly production: boolean;
  /** Whether npm started the program, which then has to end together with npm. */
  readonly underNpm: boolean;
}

/** Where the service stores things. */
export interface DatabaseAddress {
  /** The path of the SQLite file; empty where the database is one of PostgreSQL. */
  readonly databasePath: string;
  /** The PostgreSQL database, if it is one. */
  readonly postgres: PostgresAddress | undefined;
}

export interface PostgresAddress {
  readonly url: string;
  /** That of the database itself, if the other is that of a proxy which gives each transaction another connection. */
  readonly directUrl: string | undefined;
  /** Whether statements may be prepared; by default they are. */
  readonly prepares?: boolean;
  /** How many connections a process may have, half of them for reads and half for writes. */
  readonly poolSize?: number;
}

/** Beyond so many, processes that write to one file have little to gain. */
const maxWorkers = 64;

const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;

function integer(low: number, high: number) {
  return z
    .string()
    .regex(/^\d{1,9}$/, { error: `must be a whole number from ${low} to ${high}` })
    .transform(Number)
    .refine((value) => value >= low && value <= high, { error: `must be a whole number from ${low} to ${high}` });
}

const workers = z
  .string()
  .refine((text) => text === 'auto' || (/^\d{1,2}$/.test(text) && Number(text) >= 1 && Number(text) <= maxWorkers), {
    error: `must be auto or a whole number from 1 to ${maxWorkers}`,
  })
  .transform((text) => (text === 'auto' ? Math.min(availableParallelism(), maxWorkers) : Number(text)));

function flag(byDefault: 'true' | 'false') {
  return z
    .enum(['true', 'false', '1', '0'], { error: 'must be true or false' })
    .default(byDefault)
    .transform((value) => value === 'true' || value === '1');
}

const host = z.string().refine((text) => isIP(text) !== 0 || /^[\w-]+(\.[\w-]+)*$/.test(text), {
  error: 'must be an IP address or the name of a host',
});

function publicUrlFault(text: string): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) return 'must be an http or https address';
  const isBare = url.username === '' && url.password === '' && !/[?#]/.test(text);
  return isBare ? undefined : 'must hold no user, no ? and no #: clients are told it';
}

/** Comma-separated origins as browsers send them: scheme, host and port only. */
const originList = z.string().transform((text, context) => {
  const origins = text.split(',').map((origin) => origin.trim());
  for (const origin of origins) {
    const message = originFault(origin);
    if (message !== undefined) context.issues.push({ code: 'custom', input: text, message });
  }
  return origins;
});

/** The decoded path of a `file:` URL (RFC 8089), which may be relative; undefined for another URL. */
function pathOf(url: string): string | undefined {
  return /^file:[^?#]+$/.test(url)
    ? decoded(url.slice('file:'.length).replace(/^\/\/(localhost)?(?=\/)/, ''))
    : undefined;
}

/** A part of a URL without escapes; undefined where a % begins none. */
function decoded(part: string): string | undefined {
  try {
    return decodeURIComponent(part);
  } catch {
    return undefined;
  }
}

function isPostgres(url: string): boolean {
  return /^postgres(ql)?:/.test(url);
}

const postgresExample = 'postgres://USER:PASSWORD@HOST/NAME';

const sslModes = ['disable', 'prefer', 'require', 'verify-full'];

/** The driver makes of a parameter that it does not know a setting of each connection, so a typo would not be noticed. */
function postgresFault(text: string): string | undefined {
  const [, hosts = ''] = /^\w+:\/\/(?:[^/?#]*@)?([^/?#]*)/.exec(text) ?? [];
  if (/,|%2c/i.test(hosts)) return 'must name one host: one that does not answer is not replaced by another';
  const url = isPostgres(text) && URL.canParse(text) ? new URL(text) : undefined;
  const isComplete = url !== undefined && url.host !== '' && url.pathname.length > 1;
  // An @ behind the host is that of a password which is not escaped; it must not be shown.
  if (!isComplete || url.hash !== '' || /@/.test(url.pathname + url.search) || /%00/.test(url.href)) {
    return `must be the URL of a PostgreSQL database, such as ${postgresExample}`;
  }
  if ([url.username, url.password, url.hostname, url.pathname].some((part) => decoded(part) === undefined)) {
    return 'holds a % that begins no escape; write % as %25';
  }
  const { sslmode, ...others } = Object.groupBy(url.searchParams, ([name]) => name);
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) return `must have no parameter ${unknown}: it takes sslmode alone`;
  const isKnown = sslmode === undefined || (sslmode.length === 1 && sslModes.includes(sslmode[0]?.[1] ?? ''));
  return isKnown ? undefined : 'must have one sslmode: disable, prefer, require or verify-full';
}

/** What is wrong with the URL of a database, or undefined. */
export function databaseFault(url: string): string | undefined {
  const path = pathOf(url);
  if (isPostgres(url)) return postgresFault(url);
  if (!/^file:./.test(url))
    return `must be a file, such as file:data/conversations.db, or a PostgreSQL database, such as ${postgresExample}`;
  if (/[?#]/.test(url)) return 'must be file:PATH without parameters; in a path, write ? as %3F and # as %23';
  if (path === undefined) return 'holds a % that begins no escape; in a path, write % as %25';
  if (path.startsWith('//')) return 'must not name a host; write file:/PATH or file:PATH';
  if (path === ':memory:') return 'must be a file: nothing would be kept in memory';
  // SQLite's driver would trim the path, and take an empty one for a temporary database.
  if (path !== path.trim() || path.includes('\0') || path.endsWith('/')) return 'must hold the path of a file';
  return undefined;
}

/** What the URL of a database names, which has no fault. */
export function databaseAt(
  url: string,
  settings: Omit<PostgresAddress, 'url'> = { directUrl: undefined },
): DatabaseAddress {
  return { databasePath: pathOf(url) ?? '', postgres: isPostgres(url) ? { url, ...settings } : undefined };
}

/** All environment variables that configure the service. */
export const variables = z.object({
  HOST: host.default('127.0.0.1'),
  PORT: integer(0, 65_535).default(4000),
  WORKERS: workers.default(1),
  DATABASE_URL: z.string().check(refusing(databaseFault)).default('file:data/conversations.db'),
  DATABASE_DIRECT_URL: z.string().check(refusing(postgresFault)).optional(),
  DATABASE_PREPARE: flag('true'),
  DATABASE_POOL_SIZE: integer(2, 1_000).default(8),
  PUBLIC_URL: z.string().check(refusing(publicUrlFault)).optional(),
  CORS_ORIGINS: originList.optional(),
  LOG_LEVEL: z.enum(logLevels, { error: `must be one of ${logLevels.join(', ')}` }).default('info'),
  TRUST_PROXY: integer(0, 10).default(0),
  SHUTDOWN_GRACE_SECONDS: integer(0, 3_600).default(10),
  SHUTDOWN_DELAY_SECONDS: integer(0, 3_600).default(0),
  EVENT_RETENTION_DAYS: integer(1, 3_650).default(30),
  WEBHOOK_ALLOW_HTTP: flag('false'),
  WEBHOOK_ALLOW_PRIVATE_NETWORKS: flag('false'),
  NODE_ENV: z.string().default('development'),
});

export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/**
 * Reads the configuration from the environment, which no other file does. An empty variable counts as unset.
 * @throws ConfigError listing every fault
 */
export function readConfig(environment: Readonly<Record<string, string | undefined>> = process.env): Config {
  const given = Object.fromEntries(
    Object.entries(environment).filter(([, value]) => value !== undefined && value !== ''),
  );
  const { success, data, error } = variables.safeParse(given);
  if (!success) {
    throw new ConfigError(error.issues.map(({ path, message }) => `${path.join('.')} ${message}`).join('\n'));
  }
  return Object.freeze({
    host: data.HOST,
    port: data.PORT,
    workers: data.WORKERS,
    ...databaseAt(data.DATABASE_URL, {
      directUrl: data.DATABASE_DIRECT_URL,
      prepares: data.DATABASE_PREPARE,
      poolSize: data.DATABASE_POOL_SIZE,
    }),
    publicUrl: data.PUBLIC_URL,
    corsOrigins: data.CORS_ORIGINS ?? [],
    logLevel: data.LOG_LEVEL,
    trustedProxies: data.TRUST_PROXY,
    shutdownGraceMs: data.SHUTDOWN_GRACE_SECONDS * 1_000,
    shutdownDelayMs: data.SHUTDOWN_DELAY_SECONDS * 1_000,
    eventRetentionMs: data.EVENT_RETENTION_DAYS * 24 * 3_600_000,
    webhookPolicy: {
      allowHttp: data.WEBHOOK_ALLOW_HTTP,
      allowPrivate: data.WEBHOOK_ALLOW_PRIVATE_NETWORKS,
    },
    production: data.NODE_ENV === 'production',
    underNpm: given['npm_lifecycle_event'] !== undefined,
  });
}

/**
 * Sets the folder of SQLite's temporary files. SQLite itself reads it from the environment, once, when it is loaded.
 */
export function setTemporaryFolder(folder: string): void {
  process.env['SQLITE_TMPDIR'] = folder;
}
