import { z } from 'zod';

export interface Config {
  readonly host: string;
  readonly port: number;
  /** The path of the SQLite file. */
  readonly databasePath: string;
  /** The address that clients reach the service at, if it is not the one that it listens on. */
  readonly publicUrl: string | undefined;
  /** Origins whose pages may call with tokens. */
  readonly corsOrigins: readonly string[];
  readonly logLevel: (typeof logLevels)[number];
  /** How many proxies stand in front, each appending to `X-Forwarded-For`. */
  readonly trustedProxies: number;
  readonly shutdownGraceMs: number;
  /** How long it goes on serving after it was asked to stop, while it says that it is not ready. */
  readonly shutdownDelayMs: number;
  /** Events older than this are removed. */
  readonly eventRetentionMs: number;
  /** Where webhooks may be sent. */
  readonly webhookPolicy: { readonly allowHttp: boolean; readonly allowPrivate: boolean };
  readonly production: boolean;
  /** Whether npm started the program, and is to take it along when it ends. */
  readonly underNpm: boolean;
}

const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;

function integer(low: number, high: number) {
  return z
    .string()
    .regex(/^\d{1,9}$/, { error: `must be a whole number from ${low} to ${high}` })
    .transform(Number)
    .refine((value) => value >= low && value <= high, { error: `must be a whole number from ${low} to ${high}` });
}

const flag = z
  .enum(['true', 'false', '1', '0'], { error: 'must be true or false' })
  .default('false')
  .transform((value) => value === 'true' || value === '1');
/** Origins with commas between them, each as a browser writes it: scheme, host and port, and no more. */
const originList = z.string().transform((text, context) => {
  const origins = text.split(',').map((origin) => origin.trim());
  for (const origin of origins) {
    const url = URL.canParse(origin) ? new URL(origin) : undefined;
    // A browser names one origin: a star in it would never be met.
    const isWeb = (url?.protocol === 'https:' || url?.protocol === 'http:') && !url.host.includes('*');
    if (isWeb && url.origin === origin) continue;
    const hint = isWeb ? `; write ${url.origin}` : '';
    const message = `must list origins such as https://shop.example, and "${origin}" is none${hint}`;
    context.issues.push({ code: 'custom', input: text, message });
  }
  return origins;
});

/** Everything that is read from the environment. */
export const variables = z.object({
  HOST: z.string().default('127.0.0.1'),
  PORT: integer(0, 65_535).default(4000),
  DATABASE_URL: z
    .string()
    .regex(/^file:.+/, { error: 'must be a file, such as file:data/conversations.db' })
    .default('file:data/conversations.db'),
  PUBLIC_URL: z.url({ protocol: /^https?$/, error: 'must be an http or https address' }).optional(),
  CORS_ORIGINS: originList.optional(),
  LOG_LEVEL: z.enum(logLevels, { error: `must be one of ${logLevels.join(', ')}` }).default('info'),
  TRUST_PROXY: integer(0, 10).default(0),
  SHUTDOWN_GRACE_SECONDS: integer(0, 3_600).default(10),
  SHUTDOWN_DELAY_SECONDS: integer(0, 3_600).default(0),
  EVENT_RETENTION_DAYS: integer(1, 3_650).default(30),
  WEBHOOK_ALLOW_HTTP: flag,
  WEBHOOK_ALLOW_PRIVATE_NETWORKS: flag,
  NODE_ENV: z.string().default('development'),
});

export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/**
 * Reads the configuration from the environment: the only place that does. An empty variable is as one not set.
 * @throws ConfigError that names every fault
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
    databasePath: data.DATABASE_URL.slice('file:'.length).replace(/^\/\/(?=\/)/, ''),
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

/** Where SQLite is to put its temporary files: it looks into the environment by itself, once, when it is loaded. */
export function setTemporaryFolder(folder: string): void {
  process.env['SQLITE_TMPDIR'] = folder;
}
