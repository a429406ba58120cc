export { type CallOptions, Client, type ClientOptions } from './client.ts';
export type { CredentialSource, Token } from './credential.ts';
export type { ParsedDocument } from './document.ts';
export { type FieldFault, ServiceError } from './errors.ts';
export type { EventOfSocket, SocketFollowOptions } from './follow-socket.ts';
export type { FollowOptions } from './follow-stream.ts';
export { newestOnly } from './newest.ts';
export type { OperationName } from './operations.ts';
export type { Event, EventType, Input, Item, ListName, Output } from './types.ts';
