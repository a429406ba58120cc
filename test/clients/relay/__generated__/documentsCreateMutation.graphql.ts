/**
 * @generated SignedSource<<738425370ce596b6aef1b3995c8331e3>>
 * @relayHash 843b28fc5e4a203659a94aa1c9d3184e
 * @lightSyntaxTransform
 */

/* tslint:disable */
/* eslint-disable */
// @ts-nocheck

// @relayRequestID 843b28fc5e4a203659a94aa1c9d3184e

import type { ConcreteRequest } from 'relay-runtime';
export type ConversationStatus = "ACTIVE" | "CLOSED" | "PENDING" | "%future added value";
export type NewConversationStatus = "ACTIVE" | "PENDING" | "%future added value";
export type Sender = "AGENT" | "BOT" | "VISITOR" | "%future added value";
export type CreateConversationInput = {
  assignee?: AssigneeInput | null | undefined;
  externalId?: string | null | undefined;
  idempotencyKey?: string | null | undefined;
  message?: MessageInput | null | undefined;
  metadata?: Record<string, string | number | boolean> | null | undefined;
  status?: NewConversationStatus | null | undefined;
  subject?: string | null | undefined;
  tags?: ReadonlyArray<string> | null | undefined;
  visitor?: VisitorInput | null | undefined;
};
export type AssigneeInput = {
  id: string;
  name?: string | null | undefined;
};
export type MessageInput = {
  author?: MessageAuthorInput | null | undefined;
  clientId?: string | null | undefined;
  content: string;
  metadata?: Record<string, string | number | boolean> | null | undefined;
  sender?: Sender | null | undefined;
};
export type MessageAuthorInput = {
  id?: string | null | undefined;
  name?: string | null | undefined;
};
export type VisitorInput = {
  email?: string | null | undefined;
  id?: string | null | undefined;
  name?: string | null | undefined;
};
export type documentsCreateMutation$variables = {
  connections: ReadonlyArray<string>;
  input: CreateConversationInput;
};
export type documentsCreateMutation$data = {
  readonly createConversation: {
    readonly conversationEdge: {
      readonly node: {
        readonly id: string;
        readonly status: ConversationStatus;
        readonly subject: string | null | undefined;
        readonly visitor: {
          readonly id: string | null | undefined;
          readonly name: string | null | undefined;
        } | null | undefined;
      };
    };
  } | null | undefined;
};
export type documentsCreateMutation = {
  response: documentsCreateMutation$data;
  variables: documentsCreateMutation$variables;
};

const node: ConcreteRequest = (function(){
var v0 = {
  "defaultValue": null,
  "kind": "LocalArgument",
  "name": "connections"
},
v1 = {
  "defaultValue": null,
  "kind": "LocalArgument",
  "name": "input"
},
v2 = [
  {
    "kind": "Variable",
    "name": "input",
    "variableName": "input"
  }
],
v3 = {
  "alias": null,
  "args": null,
  "kind": "ScalarField",
  "name": "id",
  "storageKey": null
},
v4 = {
  "alias": null,
  "args": null,
  "concreteType": "ConversationEdge",
  "kind": "LinkedField",
  "name": "conversationEdge",
  "plural": false,
  "selections": [
    {
      "alias": null,
      "args": null,
      "concreteType": "Conversation",
      "kind": "LinkedField",
      "name": "node",
      "plural": false,
      "selections": [
        (v3/*:: as any*/),
        {
          "alias": null,
          "args": null,
          "kind": "ScalarField",
          "name": "subject",
          "storageKey": null
        },
        {
          "alias": null,
          "args": null,
          "kind": "ScalarField",
          "name": "status",
          "storageKey": null
        },
        {
          "alias": null,
          "args": null,
          "concreteType": "Visitor",
          "kind": "LinkedField",
          "name": "visitor",
          "plural": false,
          "selections": [
            (v3/*:: as any*/),
            {
              "alias": null,
              "args": null,
              "kind": "ScalarField",
              "name": "name",
              "storageKey": null
            }
          ],
          "storageKey": null
        }
      ],
      "storageKey": null
    }
  ],
  "storageKey": null
};
return {
  "fragment": {
    "argumentDefinitions": [
      (v0/*:: as any*/),
      (v1/*:: as any*/)
    ],
    "kind": "Fragment",
    "metadata": null,
    "name": "documentsCreateMutation",
    "selections": [
      {
        "alias": null,
        "args": (v2/*:: as any*/),
        "concreteType": "CreateConversationPayload",
        "kind": "LinkedField",
        "name": "createConversation",
        "plural": false,
        "selections": [
          (v4/*:: as any*/)
        ],
        "storageKey": null
      }
    ],
    "type": "Mutation",
    "abstractKey": null
  },
  "kind": "Request",
  "operation": {
    "argumentDefinitions": [
      (v1/*:: as any*/),
      (v0/*:: as any*/)
    ],
    "kind": "Operation",
    "name": "documentsCreateMutation",
    "selections": [
      {
        "alias": null,
        "args": (v2/*:: as any*/),
        "concreteType": "CreateConversationPayload",
        "kind": "LinkedField",
        "name": "createConversation",
        "plural": false,
        "selections": [
          (v4/*:: as any*/),
          {
            "alias": null,
            "args": null,
            "filters": null,
            "handle": "prependEdge",
            "key": "",
            "kind": "LinkedHandle",
            "name": "conversationEdge",
            "handleArgs": [
              {
                "kind": "Variable",
                "name": "connections",
                "variableName": "connections"
              }
            ]
          }
        ],
        "storageKey": null
      }
    ]
  },
  "params": {
    "id": "843b28fc5e4a203659a94aa1c9d3184e",
    "metadata": {},
    "name": "documentsCreateMutation",
    "operationKind": "mutation",
    "text": null
  }
};
})();

(node as any).hash = "7eacad13172a3b4b80fc9b88f28dfabe";

export default node;
