import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { encoded, formFor, type Page, type PageForms, page } from './page.ts';

// The scripts and styles of pages, which only a build has, under names that change with what they hold.

/** Of assets, by how their names end. */
const types: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
};

/** For a year, the most that has a meaning. */
const headers = { 'Cache-Control': 'public, max-age=31536000, immutable', Vary: 'Accept-Encoding' };

const prefix = '/assets/';

/** What the build puts into names. */
const hash = /-[A-Z0-9]{8}(?=\.\w+$)/;

/** Serves the assets that the build has put into a folder. Each is read for its first request. */
export class Assets {
  readonly #folder: string;
  readonly #forms = new Map<string, PageForms>();
  #names: Readonly<Record<string, string>> | undefined;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** The sources may be run without having been built. */
  get areBuilt(): boolean {
    return existsSync(join(this.#folder, 'names.json'));
  }

  /** The address of `reference.js`, say, for pages at the root. */
  addressOf(name: string): string {
    return `${prefix.slice(1)}${this.#read()[name]}`;
  }

  /**
   * What is at a path; undefined if that is no asset. While two versions serve side by side, the page may be of the other:
   * it works with the assets of this one, but nobody may keep them under that name.
   */
  at(path: string, acceptEncoding: string | undefined): Page | undefined {
    if (!path.startsWith(prefix) || !this.areBuilt) return undefined;
    const name = path.slice(prefix.length);
    const own = hash.test(name) ? this.#read()[name.replace(hash, '')] : undefined;
    if (own === undefined) return undefined;
    const form = formFor(this.#formsOf(own), acceptEncoding);
    return name === own ? form : { ...form, headers: { ...form.headers, 'Cache-Control': 'no-store' } };
  }

  #formsOf(name: string): PageForms {
    let forms = this.#forms.get(name);
    if (forms === undefined) {
      const type = types[name.split('.').at(-1) ?? ''] ?? '';
      const bytes = (ending: string): Uint8Array => readFileSync(join(this.#folder, name + ending));
      forms = [
        encoded('br', type, bytes('.br'), headers),
        encoded('gzip', type, bytes('.gz'), headers),
        page(type, bytes(''), headers),
      ];
      this.#forms.set(name, forms);
    }
    return forms;
  }

  #read(): Readonly<Record<string, string>> {
    this.#names ??= JSON.parse(readFileSync(join(this.#folder, 'names.json'), 'utf8')) as Record<string, string>;
    return this.#names;
  }
}
