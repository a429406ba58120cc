export { type CallOptions, Client, type ClientOptions, type GraphQLOptions } from './client.ts';
export type { CredentialSource, Token } from './credential.ts';
export type { ParsedDocument, TypedDocument } from './document.ts';
export { type FieldFault, ServiceError } from './errors.ts';
export type { EventOfSocket, SocketFollowOptions } from './follow-socket.ts';
export type { FollowOptions } from './follow-stream.ts';
export { newestOnly } from './newest.ts';
export type { OperationName } from './operations.ts';
export type { Event, EventType, Input, Item, ListName, Output } from './types.ts';
