import { type RulesetDefinition, Spectral } from '@stoplight/spectral-core';
import rulesets from '@stoplight/spectral-rulesets';

// Prints as JSON what Spectral's rules for OpenAPI find in the document at a URL.

const [url = ''] = process.argv.slice(2);
const spectral = new Spectral();
spectral.setRuleset({
  extends: rulesets.oas as RulesetDefinition,
  rules: {
    // It wants scopes to be listed by the scheme, which only OAuth 2 can. Since OpenAPI 3.1 every scheme may have some.
    'oas3-operation-security-defined': 'off',
  },
});
const found = await spectral.run(await (await fetch(url)).text());
console.log(JSON.stringify(found.map(({ code, message, path }) => ({ where: `${code} ${path.join('/')}`, message }))));
