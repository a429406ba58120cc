import { PreparedDocument } from './documents.ts';
import { domainErrorOf } from './errors.ts';
import { asGraphQLError } from './requests.ts';
import { schema } from './schema.ts';

/** What is wrong with the text of a document, whatever its variables are: a sentence for each fault. */
export function documentFaults(text: string): readonly string[] {
  const sentence = (error: unknown): string => domainErrorOf(asGraphQLError(error), true).message;
  try {
    return new PreparedDocument(schema, text).errors.map(sentence);
  } catch (error) {
    return [sentence(error)];
  }
}
