import { availableParallelism } from 'node:os';
import { describe, expect, test } from 'vitest';
import { ConfigError, readConfig } from '../../src/config.ts';

test('nothing has to be set', () => {
  expect(readConfig({})).toEqual({
    host: '127.0.0.1',
    port: 4000,
    workers: 1,
    databasePath: 'data/conversations.db',
    publicUrl: undefined,
    corsOrigins: [],
    logLevel: 'info',
    trustedProxies: 0,
    shutdownGraceMs: 10_000,
    shutdownDelayMs: 0,
    eventRetentionMs: 30 * 24 * 3_600_000,
    production: false,
    underNpm: false,
    webhookPolicy: { allowHttp: false, allowPrivate: false },
  });
});

describe('what is set', () => {
  test.each([
    [{ HOST: '0.0.0.0' }, { host: '0.0.0.0' }],
    [{ HOST: '::1' }, { host: '::1' }],
    [{ HOST: 'fe80::1%eth0' }, { host: 'fe80::1%eth0' }],
    [{ HOST: 'node_1.internal' }, { host: 'node_1.internal' }],
    [{ PORT: '0' }, { port: 0 }],
    [{ PORT: '65535' }, { port: 65_535 }],
    [{ PORT: '' }, { port: 4000 }],
    [{ WORKERS: '3' }, { workers: 3 }],
    [{ WORKERS: 'auto' }, { workers: availableParallelism() }],
    [{ DATABASE_URL: 'file:a.db' }, { databasePath: 'a.db' }],
    [{ DATABASE_URL: 'file:/var/lib/a.db' }, { databasePath: '/var/lib/a.db' }],
    [{ DATABASE_URL: 'file:///var/lib/a.db' }, { databasePath: '/var/lib/a.db' }],
    [{ DATABASE_URL: 'file://localhost/var/lib/a.db' }, { databasePath: '/var/lib/a.db' }],
    [{ DATABASE_URL: 'file:../a.db' }, { databasePath: '../a.db' }],
    [{ DATABASE_URL: 'file:my%20data/ä.db' }, { databasePath: 'my data/ä.db' }],
    [{ DATABASE_URL: 'file:my data/a.db' }, { databasePath: 'my data/a.db' }],
    [{ DATABASE_URL: 'file:100%25%3F%23.db' }, { databasePath: '100%?#.db' }],
    [{ DATABASE_URL: 'file:data/:memory:' }, { databasePath: 'data/:memory:' }],
    [
      { DATABASE_URL: 'postgresql://a:b@x/y' },
      {
        databasePath: '',
        postgres: { url: 'postgresql://a:b@x/y', directUrl: undefined, prepares: true, poolSize: 8 },
      },
    ],
    ...['disable', 'prefer', 'require', 'verify-full'].map((mode): [{ DATABASE_URL: string }, object] => {
      const url = `postgres://x/y?sslmode=${mode}`;
      return [{ DATABASE_URL: url }, { databasePath: '', postgres: { url, prepares: true, poolSize: 8 } }];
    }),
    [
      {
        DATABASE_URL: 'postgres://proxy/y',
        DATABASE_DIRECT_URL: 'postgres://db/y',
        DATABASE_PREPARE: 'false',
        DATABASE_POOL_SIZE: '5',
      },
      {
        databasePath: '',
        postgres: { url: 'postgres://proxy/y', directUrl: 'postgres://db/y', prepares: false, poolSize: 5 },
      },
    ],
    [{ PUBLIC_URL: 'https://chat.example.com' }, { publicUrl: 'https://chat.example.com' }],
    [{ PUBLIC_URL: 'https://example.com/@chat/' }, { publicUrl: 'https://example.com/@chat/' }],
    [{ CORS_ORIGINS: 'https://shop.example' }, { corsOrigins: ['https://shop.example'] }],
    [
      { CORS_ORIGINS: 'https://shop.example, http://127.0.0.1:8080' },
      { corsOrigins: ['https://shop.example', 'http://127.0.0.1:8080'] },
    ],
    [{ CORS_ORIGINS: '' }, { corsOrigins: [] }],
    [{ LOG_LEVEL: 'silent' }, { logLevel: 'silent' }],
    [{ TRUST_PROXY: '2' }, { trustedProxies: 2 }],
    [{ SHUTDOWN_DELAY_SECONDS: '5' }, { shutdownDelayMs: 5_000 }],
    [{ SHUTDOWN_GRACE_SECONDS: '25' }, { shutdownGraceMs: 25_000 }],
    [{ EVENT_RETENTION_DAYS: '1' }, { eventRetentionMs: 24 * 3_600_000 }],
    [{ NODE_ENV: 'production' }, { production: true }],
    [{ NODE_ENV: 'staging' }, { production: false }],
    [{ SOMETHING_ELSE: 'x' }, {}],
  ])('%j', (environment, expected) => {
    expect(readConfig(environment)).toEqual({ ...readConfig({}), ...expected });
  });
});

/** What is said of something that is no origin. */
const noOrigin = (text: string, hint = ''): string =>
  `CORS_ORIGINS must list origins such as https://shop.example, and "${text}" is not one${hint}`;

const noPostgres = 'must be the URL of a PostgreSQL database, such as postgres://USER:PASSWORD@HOST/NAME';
const noParameter = (name: string) => `must have no parameter ${name}: it takes sslmode alone`;
const noMode = 'must have one sslmode: disable, prefer, require or verify-full';
const noDatabase =
  'DATABASE_URL must be a file, such as file:data/conversations.db, or a PostgreSQL database, such as postgres://USER:PASSWORD@HOST/NAME';
const noParameters = 'DATABASE_URL must be file:PATH without parameters; in a path, write ? as %3F and # as %23';

describe('what is refused', () => {
  test.each([
    ...['http://0.0.0.0', '0.0.0.0:4000', '[::1]', 'a host', 'a..b', '/tmp/socket'].map(
      (HOST): [Record<string, string>, string] => [{ HOST }, 'HOST must be an IP address or the name of a host'],
    ),
    [{ PORT: 'abc' }, 'PORT must be a whole number from 0 to 65535'],
    [{ PORT: '65536' }, 'PORT must be a whole number from 0 to 65535'],
    [{ WORKERS: '0' }, 'WORKERS must be auto or a whole number from 1 to 64'],
    [{ WORKERS: 'all' }, 'WORKERS must be auto or a whole number from 1 to 64'],
    [{ PORT: '-1' }, 'PORT must be a whole number from 0 to 65535'],
    [{ PORT: '1e3' }, 'PORT must be a whole number from 0 to 65535'],
    [{ PORT: ' 80' }, 'PORT must be a whole number from 0 to 65535'],
    [{ PORT: '80.5' }, 'PORT must be a whole number from 0 to 65535'],
    [{ DATABASE_URL: 'postgres://x' }, `DATABASE_URL ${noPostgres}`],
    [{ DATABASE_URL: 'postgresql:x' }, `DATABASE_URL ${noPostgres}`],
    [{ DATABASE_DIRECT_URL: 'postgres://x/' }, `DATABASE_DIRECT_URL ${noPostgres}`],
    [{ DATABASE_DIRECT_URL: 'file:a.db' }, `DATABASE_DIRECT_URL ${noPostgres}`],
    [{ DATABASE_URL: 'postgres://a:pw@x/y?sslmod=require' }, `DATABASE_URL ${noParameter('sslmod')}`],
    [{ DATABASE_URL: 'postgres://x/y?statement_timeout=0' }, `DATABASE_URL ${noParameter('statement_timeout')}`],
    [{ DATABASE_DIRECT_URL: 'postgres://x/y?sslmode=require&max=1' }, `DATABASE_DIRECT_URL ${noParameter('max')}`],
    [{ DATABASE_URL: 'postgres://x/y?constructor=1' }, `DATABASE_URL ${noParameter('constructor')}`],
    [{ DATABASE_URL: 'postgres://x/y?sslmode=verify_full' }, `DATABASE_URL ${noMode}`],
    [{ DATABASE_URL: 'postgres://x/y?sslmode=' }, `DATABASE_URL ${noMode}`],
    [{ DATABASE_URL: 'postgres://x/y?sslmode=verify-full&sslmode=disable' }, `DATABASE_URL ${noMode}`],
    [
      { DATABASE_URL: 'postgres://a,b/y' },
      'DATABASE_URL must name one host: one that does not answer is not replaced by another',
    ],
    [{ DATABASE_URL: 'postgres://x/y#sslmode=require' }, `DATABASE_URL ${noPostgres}`],
    // The passwords here hold a /, a ? and a # that are not escaped: nothing of them is told.
    [{ DATABASE_URL: 'postgres://a:5/secret@x/y' }, `DATABASE_URL ${noPostgres}`],
    [{ DATABASE_URL: 'postgres://a:5/b?secret@x/y' }, `DATABASE_URL ${noPostgres}`],
    [{ DATABASE_URL: 'postgres://a:5/b#secret@x/y' }, `DATABASE_URL ${noPostgres}`],
    ...[
      'postgres://a:5%@x/y',
      'postgres://a%:25@x/y',
      'postgres://a%zz@x/y',
      'postgres://x%zz/y',
      'postgres://x/100%',
    ].map((DATABASE_URL): [Record<string, string>, string] => [
      { DATABASE_URL },
      'DATABASE_URL holds a % that begins no escape; write % as %25',
    ]),
    [{ DATABASE_URL: 'postgres://x/y%00' }, `DATABASE_URL ${noPostgres}`],
    [{ DATABASE_URL: 'postgres://a%00:b@x/y' }, `DATABASE_URL ${noPostgres}`],
    [{ DATABASE_PREPARE: 'no' }, 'DATABASE_PREPARE must be true or false'],
    [{ DATABASE_POOL_SIZE: '1' }, 'DATABASE_POOL_SIZE must be a whole number from 2 to 1000'],
    [{ DATABASE_URL: 'mysql://x' }, noDatabase],
    [{ DATABASE_URL: 'file::memory:' }, 'DATABASE_URL must be a file: nothing would be kept in memory'],
    [{ DATABASE_URL: 'file::memory:?cache=shared' }, noParameters],
    [{ DATABASE_URL: 'file:x.db?mode=memory' }, noParameters],
    [{ DATABASE_URL: 'file:x.db#1' }, noParameters],
    [{ DATABASE_URL: 'file:100%.db' }, 'DATABASE_URL holds a % that begins no escape; in a path, write % as %25'],
    [{ DATABASE_URL: 'file://server/a.db' }, 'DATABASE_URL must not name a host; write file:/PATH or file:PATH'],
    [{ DATABASE_URL: 'file:%20' }, 'DATABASE_URL must hold the path of a file'],
    [{ DATABASE_URL: 'file:a%00.db' }, 'DATABASE_URL must hold the path of a file'],
    [{ DATABASE_URL: 'file:data/' }, 'DATABASE_URL must hold the path of a file'],
    [{ DATABASE_URL: 'file:' }, noDatabase],
    [{ DATABASE_URL: 'a.db' }, noDatabase],
    [{ PUBLIC_URL: 'chat.example.com' }, 'PUBLIC_URL must be an http or https address'],
    [{ PUBLIC_URL: 'ftp://chat.example.com' }, 'PUBLIC_URL must be an http or https address'],
    ...['https://u:p@x.example', 'https://u@x.example', 'https://x.example/?a=b', 'https://x.example#a'].map(
      (PUBLIC_URL): [Record<string, string>, string] => [
        { PUBLIC_URL },
        'PUBLIC_URL must hold no user, no ? and no #: clients are told it',
      ],
    ),
    [{ CORS_ORIGINS: '*' }, noOrigin('*')],
    [{ CORS_ORIGINS: 'null' }, noOrigin('null')],
    [{ CORS_ORIGINS: 'shop.example' }, noOrigin('shop.example')],
    [{ CORS_ORIGINS: 'file:///srv/page.html' }, noOrigin('file:///srv/page.html')],
    [{ CORS_ORIGINS: 'https://*.shop.example' }, noOrigin('https://*.shop.example')],
    [{ CORS_ORIGINS: 'https://shop.example/' }, noOrigin('https://shop.example/', '; write https://shop.example')],
    [{ CORS_ORIGINS: 'https://shop.example/a' }, noOrigin('https://shop.example/a', '; write https://shop.example')],
    [
      { CORS_ORIGINS: 'https://shop.example:443' },
      noOrigin('https://shop.example:443', '; write https://shop.example'),
    ],
    [{ CORS_ORIGINS: 'HTTPS://Shop.example' }, noOrigin('HTTPS://Shop.example', '; write https://shop.example')],
    [{ CORS_ORIGINS: 'https://a@shop.example' }, noOrigin('https://a@shop.example', '; write https://shop.example')],
    [
      { CORS_ORIGINS: 'https://bücher.example' },
      noOrigin('https://bücher.example', '; write https://xn--bcher-kva.example'),
    ],
    [{ CORS_ORIGINS: 'https://shop.example,' }, noOrigin('')],
    [{ CORS_ORIGINS: 'x,https://shop.example,y' }, `${noOrigin('x')}\n${noOrigin('y')}`],
    [{ LOG_LEVEL: 'INFO' }, 'LOG_LEVEL must be one of fatal, error, warn, info, debug, trace, silent'],
    [{ TRUST_PROXY: 'true' }, 'TRUST_PROXY must be a whole number from 0 to 10'],
    [{ SHUTDOWN_GRACE_SECONDS: '3601' }, 'SHUTDOWN_GRACE_SECONDS must be a whole number from 0 to 3600'],
    [{ SHUTDOWN_DELAY_SECONDS: '-1' }, 'SHUTDOWN_DELAY_SECONDS must be a whole number from 0 to 3600'],
  ])('%j', (environment, message) => {
    expect(() => readConfig(environment)).toThrow(new ConfigError(message));
  });

  test('all of it at once', () => {
    const wrong = { HOST: ':', PORT: 'x', DATABASE_URL: 'file::memory:', TRUST_PROXY: 'y', PUBLIC_URL: 'z' };
    expect(() => readConfig(wrong)).toThrow(/^HOST .*\nPORT .*\nDATABASE_URL .*\nPUBLIC_URL .*\nTRUST_PROXY .*$/);
  });
});
