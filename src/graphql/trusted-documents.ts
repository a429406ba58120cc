import { descriptionsOf } from '../domain/descriptions.ts';
import {
  deleteDocument,
  documentShape,
  type ListedDocument,
  listDocuments,
  maxAtOnce,
  registerDocuments,
  type TrustedDocument as TrustedDocumentShape,
} from '../domain/documents.ts';
import { notFound } from '../domain/errors.ts';
import { addMutation, answering, builder, payloadType, type ResultOf } from './builder.ts';
import { connectionOf, connectionType, listInput, pageArgs } from './connection.ts';
import { listOfAtMost } from './measure.ts';

const described = descriptionsOf(documentShape);

const TrustedDocument = builder.objectRef<ListedDocument | TrustedDocumentShape>('TrustedDocument').implement({
  description: 'A GraphQL document that clients call by its `id`, as `documentId` or as the hash of a persisted query.',
  fields: (t) => ({
    // JSON can take six bytes for a byte.
    id: t.exposeID('id', { description: described.id, extensions: { maxBytes: 768 } }),
    text: t.string({
      description: described.text,
      extensions: { maxBytes: 98_304 },
      async resolve(document, _, { budget, loaders }) {
        if (!('bytes' in document)) return document.text;
        budget.read(document.bytes);
        const text = document.text ?? (await loaders.documentText.load(document.id));
        if (text === undefined) throw notFound('document'); // it was deleted after the list was read
        return text;
      },
    }),
    createdAt: t.expose('createdAt', { type: 'DateTime', description: described.createdAt }),
  }),
});

const { Connection: TrustedDocumentConnection, Edge: TrustedDocumentEdge } = connectionType(
  'TrustedDocument',
  TrustedDocument,
);

builder.queryField('documents', (t) =>
  t.field({
    type: TrustedDocumentConnection,
    ...answering(listDocuments),
    args: pageArgs,
    resolve: (_, args, context, info) => connectionOf(context, listDocuments, info, listInput(args)),
  }),
);

const TrustedDocumentInput = builder.inputType('TrustedDocumentInput', {
  description: 'A document to register.',
  fields: (t) => ({
    id: t.id({
      required: true,
      description:
        'The id by which clients will call it: 1 to 128 characters. One of 64 hexadecimal digits must be the SHA-256 of the text.',
    }),
    text: t.string({ required: true, description: 'Its text, in GraphQL: at most 16 KiB.' }),
  }),
});

const RegisterDocumentsInput = builder.inputType('RegisterDocumentsInput', {
  description: 'Documents to register.',
  fields: (t) => ({
    documents: t.field({
      type: [TrustedDocumentInput],
      required: true,
      description: `The documents, at most ${maxAtOnce}. One that is registered already stays as it is.`,
    }),
  }),
});

const RegisterDocumentsPayload = payloadType<ResultOf<typeof registerDocuments>>('registerDocuments', (t) => ({
  documents: t.expose('documents', {
    type: [TrustedDocument],
    description: 'The documents, each once.',
    extensions: listOfAtMost(maxAtOnce),
  }),
  documentEdges: t.field({
    type: [TrustedDocumentEdge],
    description:
      'The same as edges of `documents` in its default order, for clients that add them to the list in their cache.',
    extensions: listOfAtMost(maxAtOnce),
    resolve: ({ documents, cursorOf }) => documents.map((node) => ({ node, cursor: cursorOf(node) })),
  }),
}));

const DeleteDocumentInput = builder.inputType('DeleteDocumentInput', {
  description: 'The document to delete.',
  fields: (t) => ({ id: t.id({ required: true, description: 'The id of the document.' }) }),
});

const DeleteDocumentPayload = payloadType<ResultOf<typeof deleteDocument>>('deleteDocument', (t) => ({
  deletedDocumentId: t.exposeID('deletedDocumentId', {
    description: 'The id of the deleted document.',
    extensions: { maxBytes: 768 },
  }),
}));

addMutation(registerDocuments, RegisterDocumentsPayload, RegisterDocumentsInput, 'The documents to register.');
addMutation(deleteDocument, DeleteDocumentPayload, DeleteDocumentInput, 'The document to delete.');
