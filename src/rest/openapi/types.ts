import type { JsonSchema } from '../../http/json-schema.ts';

/** The part of OpenAPI 3.1 that this service uses. */
export interface OpenApiDocument {
  readonly openapi: string;
  readonly info: {
    readonly title: string;
    readonly version: string;
    readonly description: string;
    readonly contact: { readonly name: string; readonly url?: string };
    readonly license: { readonly name: string; readonly identifier: string };
  };
  readonly servers: readonly { readonly url: string }[];
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly paths: Readonly<Record<string, PathItem>>;
  /** Requests that the service sends, by arbitrary names. */
  readonly webhooks: Readonly<Record<string, { readonly post: OpenApiOperation }>>;
  readonly components: {
    readonly securitySchemes: Readonly<Record<string, object>>;
    readonly schemas: Readonly<Record<string, JsonSchema>>;
    readonly responses: Readonly<Record<string, OpenApiResponse>>;
    readonly headers: Readonly<Record<string, OpenApiHeader>>;
    readonly parameters: Readonly<Record<string, OpenApiParameter>>;
  };
}

export type PathItem = Partial<Record<'get' | 'post' | 'put' | 'patch' | 'delete', OpenApiOperation>>;

export interface OpenApiOperation {
  readonly operationId: string;
  readonly summary: string;
  readonly description: string;
  readonly deprecated?: boolean;
  readonly tags: readonly string[];
  readonly security: readonly { readonly bearer: readonly string[] }[];
  readonly parameters: readonly (OpenApiParameter | Reference)[];
  readonly requestBody?: { readonly required: boolean; readonly content: Content };
  readonly responses: Readonly<Record<string, OpenApiResponse | Reference>>;
}

export interface OpenApiParameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly description?: string;
  readonly required: boolean;
  readonly style?: string;
  readonly explode?: boolean;
  readonly schema: JsonSchema;
  readonly example?: unknown;
}

export interface OpenApiResponse {
  readonly description: string;
  readonly headers: Readonly<Record<string, OpenApiHeader | Reference>>;
  readonly content?: Content;
}

export interface OpenApiHeader {
  readonly description: string;
  readonly required?: boolean;
  readonly schema: JsonSchema;
  readonly example: unknown;
}

export interface Reference {
  readonly $ref: string;
}

export type Content = Readonly<Record<string, MediaType>>;

interface MediaType {
  readonly schema: JsonSchema;
  readonly example?: unknown;
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>;
}
