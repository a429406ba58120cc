import manifest from '../package.json' with { type: 'json' };

/** The release, as in the package. */
export const { version } = manifest;
