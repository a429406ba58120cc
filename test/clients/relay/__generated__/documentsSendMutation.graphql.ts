/**
 * @generated SignedSource<<cb84f7cf538c6b7e83b5048368f43ea5>>
 * @relayHash 85da8ee66f74162c4855048384543ee5
 * @lightSyntaxTransform
 */

/* tslint:disable */
/* eslint-disable */
// @ts-nocheck

// @relayRequestID 85da8ee66f74162c4855048384543ee5

import type { ConcreteRequest } from 'relay-runtime';
export type Sender = "AGENT" | "BOT" | "VISITOR" | "%future added value";
export type SendMessageInput = {
  author?: MessageAuthorInput | null | undefined;
  clientId?: string | null | undefined;
  content: string;
  conversationId: string;
  expectedVersion?: number | null | undefined;
  idempotencyKey?: string | null | undefined;
  metadata?: Record<string, string | number | boolean> | null | undefined;
  sender?: Sender | null | undefined;
};
export type MessageAuthorInput = {
  id?: string | null | undefined;
  name?: string | null | undefined;
};
export type documentsSendMutation$variables = {
  connections: ReadonlyArray<string>;
  input: SendMessageInput;
};
export type documentsSendMutation$data = {
  readonly sendMessage: {
    readonly messageEdge: {
      readonly node: {
        readonly content: string;
        readonly id: string;
        readonly sequence: number;
      };
    };
  } | null | undefined;
};
export type documentsSendMutation = {
  response: documentsSendMutation$data;
  variables: documentsSendMutation$variables;
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
  "concreteType": "MessageEdge",
  "kind": "LinkedField",
  "name": "messageEdge",
  "plural": false,
  "selections": [
    {
      "alias": null,
      "args": null,
      "concreteType": "Message",
      "kind": "LinkedField",
      "name": "node",
      "plural": false,
      "selections": [
        {
          "alias": null,
          "args": null,
          "kind": "ScalarField",
          "name": "id",
          "storageKey": null
        },
        {
          "alias": null,
          "args": null,
          "kind": "ScalarField",
          "name": "sequence",
          "storageKey": null
        },
        {
          "alias": null,
          "args": null,
          "kind": "ScalarField",
          "name": "content",
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
    "name": "documentsSendMutation",
    "selections": [
      {
        "alias": null,
        "args": (v2/*:: as any*/),
        "concreteType": "SendMessagePayload",
        "kind": "LinkedField",
        "name": "sendMessage",
        "plural": false,
        "selections": [
          (v3/*:: as any*/)
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
    "name": "documentsSendMutation",
    "selections": [
      {
        "alias": null,
        "args": (v2/*:: as any*/),
        "concreteType": "SendMessagePayload",
        "kind": "LinkedField",
        "name": "sendMessage",
        "plural": false,
        "selections": [
          (v3/*:: as any*/),
          {
            "alias": null,
            "args": null,
            "filters": null,
            "handle": "appendEdge",
            "key": "",
            "kind": "LinkedHandle",
            "name": "messageEdge",
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
    "id": "85da8ee66f74162c4855048384543ee5",
    "metadata": {},
    "name": "documentsSendMutation",
    "operationKind": "mutation",
    "text": null
  }
};
})();

(node as any).hash = "269f88fe566b89859b7c4c3f30852238";

export default node;
