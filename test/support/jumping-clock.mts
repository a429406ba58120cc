// Loaded before a server, by `--import`: its clock jumps forth on SIGUSR2, and back on the next one.

const RealDate = Date;
const jumpMs = 10 * 60_000;
let aheadMs = 0;

globalThis.Date = class extends RealDate {
  constructor(...values: [] | ConstructorParameters<typeof RealDate>) {
    if (values.length === 0) super(RealDate.now() + aheadMs);
    else super(...values);
  }

  static override now(): number {
    return RealDate.now() + aheadMs;
  }
} as DateConstructor;

process.on('SIGUSR2', () => {
  aheadMs = aheadMs === 0 ? jumpMs : 0;
});
