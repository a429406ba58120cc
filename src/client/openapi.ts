// Printed from openapi.json by `npm run generate`.

export interface components {
    schemas: {
        /** @description A page of a list of ConversationWithReadPositions. */
        ConversationWithReadPositionsList: {
            /** @description The items of the page. */
            data: components["schemas"]["ConversationWithReadPositions"][];
            pagination: components["schemas"]["Pagination"];
        };
        /** @description A conversation with a visitor, without its messages. */
        ConversationWithReadPositions: {
            /**
             * @description Its id.
             * @example conv_01m7z12aypfmvv4snqnjfg9r62
             */
            id: string;
            /**
             * @description Its status; `pending` means that it waits for an agent.
             * @enum {string}
             */
            status: "active" | "closed" | "pending";
            /**
             * @description Its topic.
             * @example Parcel 1042
             */
            subject: string | null;
            /** @description The visitor, if given. */
            visitor: components["schemas"]["Visitor"] | null;
            /**
             * @description Its id in the client’s system, unique in the account. Null when read with a bound token.
             * @example ticket-1042
             */
            externalId: string | null;
            /** @description Which agent has it, if one does. */
            assignee: components["schemas"]["Assignee"] | null;
            /**
             * @description Its tags, without doubles and sorted by code point. Empty when read with a bound token.
             * @example [
             *       "delivery",
             *       "urgent"
             *     ]
             */
            tags: string[];
            /** @description Arbitrary client data. Empty when read with a bound token. */
            metadata: components["schemas"]["Metadata"];
            /**
             * @description Number of messages.
             * @example 1
             */
            messageCount: number;
            /** @description Its last message, if it has one. */
            lastMessage: components["schemas"]["LastMessage"] | null;
            /**
             * Format: date-time
             * @description Time of its last message, or of its creation if it has none.
             * @example 2026-11-21T06:12:00.000Z
             */
            lastActivityAt: string;
            /**
             * @description Time of the first agent message after a visitor message; null until then.
             * @example null
             */
            firstResponseAt: string | null;
            /**
             * @description When it was closed; null while it is open.
             * @example null
             */
            closedAt: string | null;
            /** @description Starts at 1 and grows by one with each operation that changes the conversation, including new messages. */
            version: number;
            /**
             * Format: date-time
             * @description When it was created.
             * @example 2026-11-21T06:12:00.000Z
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description When it last changed.
             * @example 2026-11-21T06:12:00.000Z
             */
            updatedAt: string;
            /** @description How far its readers have read it, sorted by reader. Only the visitor’s when read with a bound token. */
            readPositions: components["schemas"]["ReadPosition"][];
        };
        /** @description The visitor, as given by the client. */
        Visitor: {
            /**
             * @description The visitor’s id in the client’s system.
             * @example customer-7
             */
            id: string | null;
            /**
             * @description The visitor’s name.
             * @example Ada
             */
            name: string | null;
            /**
             * @description The visitor’s email address.
             * @example ada@example.com
             */
            email: string | null;
        };
        /** @description The agent who has a conversation. */
        Assignee: {
            /**
             * @description The agent’s id in the client’s system. Null when read with a bound token.
             * @example agent-3
             */
            id: string | null;
            /**
             * @description Display name.
             * @example Grace
             */
            name: string | null;
        };
        /**
         * @description Arbitrary client data: a flat object, never null. Numbers are doubles; one that no double holds exactly is refused: pass identifiers of more than 15 digits as strings.
         * @example {
         *       "orderId": 1042
         *     }
         */
        Metadata: {
            [key: string]: string | number | boolean;
        };
        /** @description The last message of a conversation, with the beginning of its text. */
        LastMessage: {
            /**
             * @description Its id.
             * @example msg_01m7z12aypfmvv4snqnjfg9r62
             */
            id: string;
            /** @description Position in the conversation: 1, 2, 3 … without gaps. */
            sequence: number;
            /**
             * @description Role of the sender.
             * @enum {string}
             */
            sender: "agent" | "visitor" | "bot";
            /** @description Who wrote it, if given. */
            author: components["schemas"]["MessageAuthor"] | null;
            /**
             * Format: date-time
             * @description When it was sent.
             * @example 2026-11-21T06:12:00.000Z
             */
            createdAt: string;
            /**
             * @description The first 200 characters of its text.
             * @example It will be with you tomorrow.
             */
            preview: string;
        };
        /** @description The agent or bot that wrote a message. */
        MessageAuthor: {
            /**
             * @description The author’s id in the client’s system. Null when read with a bound token.
             * @example agent-3
             */
            id: string | null;
            /**
             * @description Display name.
             * @example Grace
             */
            name: string | null;
        };
        /** @description How far a reader has read a conversation. It only moves forward. */
        ReadPosition: {
            /**
             * @description Who has read: an agent’s id in the client’s system, or `visitor`.
             * @example agent-3
             */
            reader: string;
            /** @description The sequence of the last message that it has read; 0 for none. */
            sequence: number;
            /**
             * Format: date-time
             * @description When it moved there.
             * @example 2026-11-21T06:12:00.000Z
             */
            readAt: string;
        };
        /** @description The position of a page in its list. */
        Pagination: {
            /**
             * @description The requested page size.
             * @example 20
             */
            limit: number;
            /** @description Number of items skipped. */
            offset: number;
            /**
             * @description The total number of items. Left out with `total=none`.
             * @example 1
             */
            total?: number;
            /** @description Whether there are more items after this page. */
            hasMore: boolean;
            /**
             * @description The cursor to pass as `after` to get the next page; null on the last page.
             * @example null
             */
            nextCursor: string | null;
        };
        CreateConversationInput: {
            /**
             * @description Its topic.
             * @example Parcel 1042
             */
            subject?: string | null;
            /** @description `active` by default, or `pending` if the first message is a visitor’s. With an agent’s message it is `active` in any case. */
            status?: ("active" | "pending") | null;
            /** @description The visitor. */
            visitor?: {
                /** @description The visitor’s id in the client’s system. */
                id?: string | null;
                /**
                 * @description The visitor’s name.
                 * @example Ada
                 */
                name?: string | null;
                /** @description The visitor’s email address. */
                email?: string | null;
            } | null;
            /** @description Its id in the client’s system, unique in the account. */
            externalId?: string | null;
            /** @description Which agent has it. */
            assignee?: {
                /**
                 * @description The agent’s id in the client’s system.
                 * @example agent-3
                 */
                id: string;
                /**
                 * @description Display name.
                 * @example Grace
                 */
                name?: string | null;
            } | null;
            /** @description Its tags: At most 20 different ones of 1 to 50 characters, without commas and without white space at either end. */
            tags?: string[] | null;
            /** @description Arbitrary client data: a flat object of at most 50 keys and 8 KiB. */
            metadata?: {
                [key: string]: string | number | boolean;
            } | null;
            /** @description The first message. */
            message?: {
                /**
                 * @description The text: 1 to 16,384 characters, not only white space.
                 * @example It will be with you tomorrow.
                 */
                content: string;
                /**
                 * @description Role of the sender. Use `visitor` to pass on what a visitor wrote. It may be left out with a token that can send as no other.
                 * @example agent
                 * @enum {string}
                 */
                sender?: "agent" | "visitor" | "bot";
                /** @description The agent or bot that wrote it. */
                author?: {
                    /** @description The author’s id in the client’s system. */
                    id?: string | null;
                    /**
                     * @description Display name.
                     * @example Grace
                     */
                    name?: string | null;
                } | null;
                /**
                 * @description The sender’s own mark: 1 to 64 visible ASCII characters, by which it knows its own message in the event log.
                 * @example draft-17
                 */
                clientId?: string | null;
                /** @description Arbitrary client data: a flat object of at most 50 keys and 8 KiB. */
                metadata?: {
                    [key: string]: string | number | boolean;
                } | null;
            } | null;
        };
        /** @description A conversation with a visitor, including all its messages. */
        ConversationWithMessages: {
            /**
             * @description Its id.
             * @example conv_01m7z12aypfmvv4snqnjfg9r62
             */
            id: string;
            /**
             * @description Its status; `pending` means that it waits for an agent.
             * @enum {string}
             */
            status: "active" | "closed" | "pending";
            /**
             * @description Its topic.
             * @example Parcel 1042
             */
            subject: string | null;
            /** @description The visitor, if given. */
            visitor: components["schemas"]["Visitor"] | null;
            /**
             * @description Its id in the client’s system, unique in the account. Null when read with a bound token.
             * @example ticket-1042
             */
            externalId: string | null;
            /** @description Which agent has it, if one does. */
            assignee: components["schemas"]["Assignee"] | null;
            /**
             * @description Its tags, without doubles and sorted by code point. Empty when read with a bound token.
             * @example [
             *       "delivery",
             *       "urgent"
             *     ]
             */
            tags: string[];
            /** @description Arbitrary client data. Empty when read with a bound token. */
            metadata: components["schemas"]["Metadata"];
            /**
             * @description Number of messages.
             * @example 1
             */
            messageCount: number;
            /** @description Its last message, if it has one. */
            lastMessage: components["schemas"]["LastMessage"] | null;
            /**
             * Format: date-time
             * @description Time of its last message, or of its creation if it has none.
             * @example 2026-11-21T06:12:00.000Z
             */
            lastActivityAt: string;
            /**
             * @description Time of the first agent message after a visitor message; null until then.
             * @example null
             */
            firstResponseAt: string | null;
            /**
             * @description When it was closed; null while it is open.
             * @example null
             */
            closedAt: string | null;
            /** @description Starts at 1 and grows by one with each operation that changes the conversation, including new messages. */
            version: number;
            /**
             * Format: date-time
             * @description When it was created.
             * @example 2026-11-21T06:12:00.000Z
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description When it last changed.
             * @example 2026-11-21T06:12:00.000Z
             */
            updatedAt: string;
            /** @description How far its readers have read it, sorted by reader. Only the visitor’s when read with a bound token. */
            readPositions: components["schemas"]["ReadPosition"][];
            /** @description All its messages, oldest first. */
            messages: components["schemas"]["Message"][];
        };
        /** @description A message in a conversation. Messages never change. */
        Message: {
            /**
             * @description Its id.
             * @example msg_01m7z12aypfmvv4snqnjfg9r62
             */
            id: string;
            /**
             * @description The conversation it belongs to.
             * @example conv_01m7z12aypfmvv4snqnjfg9r62
             */
            conversationId: string;
            /** @description Position in the conversation: 1, 2, 3 … without gaps. */
            sequence: number;
            /**
             * @description Role of the sender.
             * @enum {string}
             */
            sender: "agent" | "visitor" | "bot";
            /**
             * @description Its text: 1 to 16,384 characters.
             * @example It will be with you tomorrow.
             */
            content: string;
            /** @description Who wrote it, if given. */
            author: components["schemas"]["MessageAuthor"] | null;
            /**
             * @description The sender’s own mark, by which it knows its own message in the event log.
             * @example draft-17
             */
            clientId: string | null;
            /** @description Arbitrary client data. Empty when read with a bound token. */
            metadata: components["schemas"]["Metadata"];
            /**
             * Format: date-time
             * @description When it was sent.
             * @example 2026-11-21T06:12:00.000Z
             */
            createdAt: string;
        };
        /** @description A conversation with a visitor, including its messages unless they are left out. */
        OpenConversation: {
            /**
             * @description Its id.
             * @example conv_01m7z12aypfmvv4snqnjfg9r62
             */
            id: string;
            /**
             * @description Its status; `pending` means that it waits for an agent.
             * @enum {string}
             */
            status: "active" | "closed" | "pending";
            /**
             * @description Its topic.
             * @example Parcel 1042
             */
            subject: string | null;
            /** @description The visitor, if given. */
            visitor: components["schemas"]["Visitor"] | null;
            /**
             * @description Its id in the client’s system, unique in the account. Null when read with a bound token.
             * @example ticket-1042
             */
            externalId: string | null;
            /** @description Which agent has it, if one does. */
            assignee: components["schemas"]["Assignee"] | null;
            /**
             * @description Its tags, without doubles and sorted by code point. Empty when read with a bound token.
             * @example [
             *       "delivery",
             *       "urgent"
             *     ]
             */
            tags: string[];
            /** @description Arbitrary client data. Empty when read with a bound token. */
            metadata: components["schemas"]["Metadata"];
            /**
             * @description Number of messages.
             * @example 1
             */
            messageCount: number;
            /** @description Its last message, if it has one. */
            lastMessage: components["schemas"]["LastMessage"] | null;
            /**
             * Format: date-time
             * @description Time of its last message, or of its creation if it has none.
             * @example 2026-11-21T06:12:00.000Z
             */
            lastActivityAt: string;
            /**
             * @description Time of the first agent message after a visitor message; null until then.
             * @example null
             */
            firstResponseAt: string | null;
            /**
             * @description When it was closed; null while it is open.
             * @example null
             */
            closedAt: string | null;
            /** @description Starts at 1 and grows by one with each operation that changes the conversation, including new messages. */
            version: number;
            /**
             * Format: date-time
             * @description When it was created.
             * @example 2026-11-21T06:12:00.000Z
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description When it last changed.
             * @example 2026-11-21T06:12:00.000Z
             */
            updatedAt: string;
            /** @description How far its readers have read it, sorted by reader. Only the visitor’s when read with a bound token. */
            readPositions: components["schemas"]["ReadPosition"][];
            /** @description All its messages or, if asked for, the newest of them, oldest first. Left out with `messages=none`. */
            messages?: components["schemas"]["Message"][];
        };
        UpdateConversationInput: {
            /**
             * @description The new status.
             * @enum {string}
             */
            status?: "active" | "closed" | "pending";
            /**
             * @description Its topic.
             * @example Parcel 1042
             */
            subject?: string | null;
            /** @description The visitor; replaced as a whole. */
            visitor?: {
                /** @description The visitor’s id in the client’s system. */
                id?: string | null;
                /**
                 * @description The visitor’s name.
                 * @example Ada
                 */
                name?: string | null;
                /** @description The visitor’s email address. */
                email?: string | null;
            } | null;
            /** @description Its id in the client’s system, unique in the account. */
            externalId?: string | null;
            /** @description Which agent has it; replaced as a whole. */
            assignee?: {
                /**
                 * @description The agent’s id in the client’s system.
                 * @example agent-3
                 */
                id: string;
                /**
                 * @description Display name.
                 * @example Grace
                 */
                name?: string | null;
            } | null;
            /** @description Replaces all tags. At most 20 different ones of 1 to 50 characters, without commas and without white space at either end. Not together with `addTags` or `removeTags`. */
            tags?: string[] | null;
            /** @description Tags to add to those that it has. */
            addTags?: string[] | null;
            /** @description Tags to remove from those that it has; one that is also added is removed. */
            removeTags?: string[] | null;
            /** @description Merged into the existing metadata: a null value removes its key, and null in place of the object removes all keys. */
            metadata?: ({
                [key: string]: string | number | boolean | null;
            } | null) | null;
        };
        /** @description A page of a list of Message. */
        MessageList: {
            /** @description The items of the page. */
            data: components["schemas"]["Message"][];
            pagination: components["schemas"]["Pagination"];
        };
        SendMessageInput: {
            /**
             * @description The text: 1 to 16,384 characters, not only white space.
             * @example It will be with you tomorrow.
             */
            content: string;
            /**
             * @description Role of the sender. Use `visitor` to pass on what a visitor wrote. It may be left out with a token that can send as no other.
             * @example agent
             * @enum {string}
             */
            sender?: "agent" | "visitor" | "bot";
            /** @description The agent or bot that wrote it. */
            author?: {
                /** @description The author’s id in the client’s system. */
                id?: string | null;
                /**
                 * @description Display name.
                 * @example Grace
                 */
                name?: string | null;
            } | null;
            /**
             * @description The sender’s own mark: 1 to 64 visible ASCII characters, by which it knows its own message in the event log.
             * @example draft-17
             */
            clientId?: string | null;
            /** @description Arbitrary client data: a flat object of at most 50 keys and 8 KiB. */
            metadata?: {
                [key: string]: string | number | boolean;
            } | null;
        };
        MarkReadInput: {
            /** @description The sequence of the last message that it has read; before the present position, nothing changes. */
            sequence: number;
        };
        /** @description A page of search results, newest first. */
        SearchResultList: {
            /** @description The results of the page. */
            data: components["schemas"]["SearchResult"][];
            /** @description The position of the page among the results. */
            pagination: {
                /**
                 * @description The requested page size.
                 * @example 20
                 */
                limit: number;
                /**
                 * @description The number of results, counted up to 1,000. Left out with `total=none`.
                 * @example 1
                 */
                total?: number;
                /** @description Whether there are more than `total`. Left out with it. */
                totalIsMore?: boolean;
                /** @description Whether there are more items after this page. */
                hasMore: boolean;
                /**
                 * @description The cursor to pass as `after` to get the next page; null on the last page.
                 * @example null
                 */
                nextCursor: string | null;
            };
        };
        /** @description A message, or a conversation’s own text, that holds what was searched for. */
        SearchResult: {
            /** @description The conversation. */
            conversation: components["schemas"]["Conversation"];
            /** @description The message that was found; null if it is the conversation’s subject, visitor’s name or email address. */
            message: components["schemas"]["Message"] | null;
            /** @description Where the words are in the text, in at most 21 parts: about 200 characters, beginning shortly before the first. */
            excerpt: components["schemas"]["ExcerptPart"][];
        };
        /** @description A conversation with a visitor, without its messages. */
        Conversation: {
            /**
             * @description Its id.
             * @example conv_01m7z12aypfmvv4snqnjfg9r62
             */
            id: string;
            /**
             * @description Its status; `pending` means that it waits for an agent.
             * @enum {string}
             */
            status: "active" | "closed" | "pending";
            /**
             * @description Its topic.
             * @example Parcel 1042
             */
            subject: string | null;
            /** @description The visitor, if given. */
            visitor: components["schemas"]["Visitor"] | null;
            /**
             * @description Its id in the client’s system, unique in the account. Null when read with a bound token.
             * @example ticket-1042
             */
            externalId: string | null;
            /** @description Which agent has it, if one does. */
            assignee: components["schemas"]["Assignee"] | null;
            /**
             * @description Its tags, without doubles and sorted by code point. Empty when read with a bound token.
             * @example [
             *       "delivery",
             *       "urgent"
             *     ]
             */
            tags: string[];
            /** @description Arbitrary client data. Empty when read with a bound token. */
            metadata: components["schemas"]["Metadata"];
            /**
             * @description Number of messages.
             * @example 1
             */
            messageCount: number;
            /** @description Its last message, if it has one. */
            lastMessage: components["schemas"]["LastMessage"] | null;
            /**
             * Format: date-time
             * @description Time of its last message, or of its creation if it has none.
             * @example 2026-11-21T06:12:00.000Z
             */
            lastActivityAt: string;
            /**
             * @description Time of the first agent message after a visitor message; null until then.
             * @example null
             */
            firstResponseAt: string | null;
            /**
             * @description When it was closed; null while it is open.
             * @example null
             */
            closedAt: string | null;
            /** @description Starts at 1 and grows by one with each operation that changes the conversation, including new messages. */
            version: number;
            /**
             * Format: date-time
             * @description When it was created.
             * @example 2026-11-21T06:12:00.000Z
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description When it last changed.
             * @example 2026-11-21T06:12:00.000Z
             */
            updatedAt: string;
        };
        /** @description A part of an excerpt. All parts together are the excerpt. */
        ExcerptPart: {
            /**
             * @description A piece of the text, as it was written.
             * @example parcel
             */
            text: string;
            /** @description Whether this is what was searched for. */
            match: boolean;
        };
        CaptureLeadInput: {
            /** @description The conversation in which it was captured. */
            conversationId?: string | null;
            /**
             * @description The visitor’s name.
             * @example Ada
             */
            name?: string | null;
            /**
             * @description An email address; this or a phone number is required.
             * @example ada@example.com
             */
            email?: string | null;
            /** @description A phone number; this or an email address is required. */
            phone?: string | null;
            /** @description The visitor’s company. */
            company?: string | null;
            /** @description Arbitrary client data: a flat object of at most 50 keys and 8 KiB. */
            metadata?: {
                [key: string]: string | number | boolean;
            } | null;
        } & ({
            /** @description An email address. */
            email: string;
        } | {
            /** @description A phone number. */
            phone: string;
        });
        /** @description Contact details left by a visitor. A lead never changes. */
        Lead: {
            /**
             * @description Its id.
             * @example lead_01m7z12aypfmvv4snqnjfg9r62
             */
            id: string;
            /** @description The conversation in which it was captured, if any. */
            conversationId: string | null;
            /**
             * @description The visitor’s name.
             * @example Ada
             */
            name: string | null;
            /**
             * @description An email address; a lead has this, `phone` or both.
             * @example ada@example.com
             */
            email: string | null;
            /**
             * @description A phone number; a lead has this, `email` or both.
             * @example null
             */
            phone: string | null;
            /**
             * @description The visitor’s company.
             * @example Analytical Engines
             */
            company: string | null;
            metadata: components["schemas"]["Metadata"];
            /**
             * Format: date-time
             * @description When it was captured.
             * @example 2026-11-21T06:12:00.000Z
             */
            createdAt: string;
        };
        /** @description A page of a list of Lead. */
        LeadList: {
            /** @description The items of the page. */
            data: components["schemas"]["Lead"][];
            pagination: components["schemas"]["Pagination"];
        };
        /** @description A page of the event log. */
        EventList: {
            /** @description The events of the page, oldest first. */
            data: components["schemas"]["Event"][];
            /** @description The position of the page in the log. */
            pagination: {
                /**
                 * @description The requested page size.
                 * @example 20
                 */
                limit: number;
                /** @description Whether the log continues after this page, with matching events or without. */
                hasMore: boolean;
                /**
                 * @description The cursor to pass as `after` to continue, also after the last page, once there are more events.
                 * @example NWUwYzFhN2YuMTA0MQ
                 */
                nextCursor: string;
            };
        };
        /** @description An entry of the event log, which tells of every change of a conversation. The events of one operation have the same snapshot. */
        Event: components["schemas"]["ConversationStartedEvent"] | components["schemas"]["MessageReceivedEvent"] | components["schemas"]["ConversationClosedEvent"] | components["schemas"]["LeadCapturedEvent"] | components["schemas"]["MessageSentEvent"] | components["schemas"]["ConversationReopenedEvent"] | components["schemas"]["ConversationUpdatedEvent"] | components["schemas"]["ConversationReadEvent"] | components["schemas"]["ConversationDeletedEvent"];
        /** @description A conversation was started. */
        ConversationStartedEvent: {
            /**
             * @description Its id, the same in every delivery.
             * @example evt_01m7z12aypfmvv4snqnjfg9r62
             */
            id: string;
            /**
             * @description Type of the event. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "conversation.started";
            /**
             * Format: date-time
             * @description When it happened.
             * @example 2026-11-21T06:12:00.000Z
             */
            timestamp: string;
            /** @description Position in the account’s log: 1, 2, 3 … without gaps. Null when read with a bound token. */
            sequence: number | null;
            /**
             * @description Position just after this event: pass it as `after` to continue from there.
             * @example NWUwYzFhN2YuMTA0MQ
             */
            cursor: string;
            /**
             * @description Payload format version.
             * @constant
             */
            apiVersion: "v1";
            /**
             * @description The account it belongs to.
             * @example acct_01m7z12aypfmvv4snqnjfg9r62
             */
            accountId: string;
            /** @description State right after the event. */
            data: {
                /** @description The conversation right after the event. */
                conversation: components["schemas"]["Conversation"];
            } | components["schemas"]["Erased"];
        };
        /** @description The data of an event whose conversation was deleted. */
        Erased: {
            /**
             * @description Always true: the data was erased.
             * @constant
             */
            erased: true;
        };
        /** @description A visitor sent a message. */
        MessageReceivedEvent: {
            /**
             * @description Its id, the same in every delivery.
             * @example evt_01m7z12aypfmvv4snqnjfg9r62
             */
            id: string;
            /**
             * @description Type of the event. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "message.received";
            /**
             * Format: date-time
             * @description When it happened.
             * @example 2026-11-21T06:12:00.000Z
             */
            timestamp: string;
            /** @description Position in the account’s log: 1, 2, 3 … without gaps. Null when read with a bound token. */
            sequence: number | null;
            /**
             * @description Position just after this event: pass it as `after` to continue from there.
             * @example NWUwYzFhN2YuMTA0MQ
             */
            cursor: string;
            /**
             * @description Payload format version.
             * @constant
             */
            apiVersion: "v1";
            /**
             * @description The account it belongs to.
             * @example acct_01m7z12aypfmvv4snqnjfg9r62
             */
            accountId: string;
            /** @description State right after the event. */
            data: {
                /** @description The message. */
                message: components["schemas"]["Message"];
                /** @description The conversation right after the event. */
                conversation: components["schemas"]["Conversation"];
            } | components["schemas"]["Erased"];
        };
        /** @description A conversation was closed. */
        ConversationClosedEvent: {
            /**
             * @description Its id, the same in every delivery.
             * @example evt_01m7z12aypfmvv4snqnjfg9r62
             */
            id: string;
            /**
             * @description Type of the event. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "conversation.closed";
            /**
             * Format: date-time
             * @description When it happened.
             * @example 2026-11-21T06:12:00.000Z
             */
            timestamp: string;
            /** @description Position in the account’s log: 1, 2, 3 … without gaps. Null when read with a bound token. */
            sequence: number | null;
            /**
             * @description Position just after this event: pass it as `after` to continue from there.
             * @example NWUwYzFhN2YuMTA0MQ
             */
            cursor: string;
            /**
             * @description Payload format version.
             * @constant
             */
            apiVersion: "v1";
            /**
             * @description The account it belongs to.
             * @example acct_01m7z12aypfmvv4snqnjfg9r62
             */
            accountId: string;
            /** @description State right after the event. */
            data: {
                /** @description The conversation right after the event. */
                conversation: components["schemas"]["Conversation"];
            } | components["schemas"]["Erased"];
        };
        /** @description A lead was captured. */
        LeadCapturedEvent: {
            /**
             * @description Its id, the same in every delivery.
             * @example evt_01m7z12aypfmvv4snqnjfg9r62
             */
            id: string;
            /**
             * @description Type of the event. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "lead.captured";
            /**
             * Format: date-time
             * @description When it happened.
             * @example 2026-11-21T06:12:00.000Z
             */
            timestamp: string;
            /** @description Position in the account’s log: 1, 2, 3 … without gaps. Null when read with a bound token. */
            sequence: number | null;
            /**
             * @description Position just after this event: pass it as `after` to continue from there.
             * @example NWUwYzFhN2YuMTA0MQ
             */
            cursor: string;
            /**
             * @description Payload format version.
             * @constant
             */
            apiVersion: "v1";
            /**
             * @description The account it belongs to.
             * @example acct_01m7z12aypfmvv4snqnjfg9r62
             */
            accountId: string;
            /** @description State right after the event. */
            data: {
                /** @description The lead. */
                lead: components["schemas"]["Lead"];
                /** @description The conversation in which it was captured, if any. */
                conversation: components["schemas"]["Conversation"] | null;
            } | components["schemas"]["Erased"];
        };
        /** @description An agent or a bot sent a message. */
        MessageSentEvent: {
            /**
             * @description Its id, the same in every delivery.
             * @example evt_01m7z12aypfmvv4snqnjfg9r62
             */
            id: string;
            /**
             * @description Type of the event. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "message.sent";
            /**
             * Format: date-time
             * @description When it happened.
             * @example 2026-11-21T06:12:00.000Z
             */
            timestamp: string;
            /** @description Position in the account’s log: 1, 2, 3 … without gaps. Null when read with a bound token. */
            sequence: number | null;
            /**
             * @description Position just after this event: pass it as `after` to continue from there.
             * @example NWUwYzFhN2YuMTA0MQ
             */
            cursor: string;
            /**
             * @description Payload format version.
             * @constant
             */
            apiVersion: "v1";
            /**
             * @description The account it belongs to.
             * @example acct_01m7z12aypfmvv4snqnjfg9r62
             */
            accountId: string;
            /** @description State right after the event. */
            data: {
                /** @description The message. */
                message: components["schemas"]["Message"];
                /** @description The conversation right after the event. */
                conversation: components["schemas"]["Conversation"];
            } | components["schemas"]["Erased"];
        };
        /** @description A conversation was reopened. */
        ConversationReopenedEvent: {
            /**
             * @description Its id, the same in every delivery.
             * @example evt_01m7z12aypfmvv4snqnjfg9r62
             */
            id: string;
            /**
             * @description Type of the event. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "conversation.reopened";
            /**
             * Format: date-time
             * @description When it happened.
             * @example 2026-11-21T06:12:00.000Z
             */
            timestamp: string;
            /** @description Position in the account’s log: 1, 2, 3 … without gaps. Null when read with a bound token. */
            sequence: number | null;
            /**
             * @description Position just after this event: pass it as `after` to continue from there.
             * @example NWUwYzFhN2YuMTA0MQ
             */
            cursor: string;
            /**
             * @description Payload format version.
             * @constant
             */
            apiVersion: "v1";
            /**
             * @description The account it belongs to.
             * @example acct_01m7z12aypfmvv4snqnjfg9r62
             */
            accountId: string;
            /** @description State right after the event. */
            data: {
                /** @description The conversation right after the event. */
                conversation: components["schemas"]["Conversation"];
            } | components["schemas"]["Erased"];
        };
        /** @description A client changed fields of a conversation. */
        ConversationUpdatedEvent: {
            /**
             * @description Its id, the same in every delivery.
             * @example evt_01m7z12aypfmvv4snqnjfg9r62
             */
            id: string;
            /**
             * @description Type of the event. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "conversation.updated";
            /**
             * Format: date-time
             * @description When it happened.
             * @example 2026-11-21T06:12:00.000Z
             */
            timestamp: string;
            /** @description Position in the account’s log: 1, 2, 3 … without gaps. Null when read with a bound token. */
            sequence: number | null;
            /**
             * @description Position just after this event: pass it as `after` to continue from there.
             * @example NWUwYzFhN2YuMTA0MQ
             */
            cursor: string;
            /**
             * @description Payload format version.
             * @constant
             */
            apiVersion: "v1";
            /**
             * @description The account it belongs to.
             * @example acct_01m7z12aypfmvv4snqnjfg9r62
             */
            accountId: string;
            /** @description State right after the event. */
            data: {
                /** @description The conversation right after the event. */
                conversation: components["schemas"]["Conversation"];
                /** @description What was changed. */
                changes: components["schemas"]["ConversationChanges"];
            } | components["schemas"]["Erased"];
        };
        /** @description What a client changed of a conversation. */
        ConversationChanges: {
            /** @description Its status; closing and reopening have events of their own. */
            status?: {
                /**
                 * @description Its value before.
                 * @enum {string}
                 */
                from: "active" | "pending";
                /**
                 * @description Its value afterwards.
                 * @enum {string}
                 */
                to: "active" | "pending";
            };
            /** @description Its topic. */
            subject?: {
                /**
                 * @description Its value before.
                 * @example Parcel 1042
                 */
                from: string | null;
                /**
                 * @description Its value afterwards.
                 * @example Parcel 1042
                 */
                to: string | null;
            };
            /** @description The visitor. */
            visitor?: {
                /** @description Its value before. */
                from: components["schemas"]["Visitor"] | null;
                /** @description Its value afterwards. */
                to: components["schemas"]["Visitor"] | null;
            };
            /** @description Its id in the client’s system. */
            externalId?: {
                /**
                 * @description Its value before.
                 * @example ticket-1042
                 */
                from: string | null;
                /**
                 * @description Its value afterwards.
                 * @example ticket-1042
                 */
                to: string | null;
            };
            /** @description Which agent has it. */
            assignee?: {
                /** @description Its value before. */
                from: components["schemas"]["Assignee"] | null;
                /** @description Its value afterwards. */
                to: components["schemas"]["Assignee"] | null;
            };
            /** @description Its tags. */
            tags?: {
                /**
                 * @description Its value before.
                 * @example [
                 *       "delivery",
                 *       "urgent"
                 *     ]
                 */
                from: string[];
                /**
                 * @description Its value afterwards.
                 * @example [
                 *       "delivery",
                 *       "urgent"
                 *     ]
                 */
                to: string[];
            };
            /** @description The keys of its metadata that changed; null where there was none, or is none any more. */
            metadata?: {
                [key: string]: {
                    /** @description Its value before. */
                    from: string | number | boolean | null;
                    /** @description Its value afterwards. */
                    to: string | number | boolean | null;
                };
            };
        };
        /** @description A reader has read further in a conversation. */
        ConversationReadEvent: {
            /**
             * @description Its id, the same in every delivery.
             * @example evt_01m7z12aypfmvv4snqnjfg9r62
             */
            id: string;
            /**
             * @description Type of the event. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "conversation.read";
            /**
             * Format: date-time
             * @description When it happened.
             * @example 2026-11-21T06:12:00.000Z
             */
            timestamp: string;
            /** @description Position in the account’s log: 1, 2, 3 … without gaps. Null when read with a bound token. */
            sequence: number | null;
            /**
             * @description Position just after this event: pass it as `after` to continue from there.
             * @example NWUwYzFhN2YuMTA0MQ
             */
            cursor: string;
            /**
             * @description Payload format version.
             * @constant
             */
            apiVersion: "v1";
            /**
             * @description The account it belongs to.
             * @example acct_01m7z12aypfmvv4snqnjfg9r62
             */
            accountId: string;
            /** @description State right after the event. */
            data: {
                /**
                 * @description The conversation.
                 * @example conv_01m7z12aypfmvv4snqnjfg9r62
                 */
                conversationId: string;
                /** @description The position after its move. */
                readPosition: components["schemas"]["ReadPosition"];
            } | components["schemas"]["Erased"];
        };
        /** @description A conversation was deleted. */
        ConversationDeletedEvent: {
            /**
             * @description Its id, the same in every delivery.
             * @example evt_01m7z12aypfmvv4snqnjfg9r62
             */
            id: string;
            /**
             * @description Type of the event. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "conversation.deleted";
            /**
             * Format: date-time
             * @description When it happened.
             * @example 2026-11-21T06:12:00.000Z
             */
            timestamp: string;
            /** @description Position in the account’s log: 1, 2, 3 … without gaps. Null when read with a bound token. */
            sequence: number | null;
            /**
             * @description Position just after this event: pass it as `after` to continue from there.
             * @example NWUwYzFhN2YuMTA0MQ
             */
            cursor: string;
            /**
             * @description Payload format version.
             * @constant
             */
            apiVersion: "v1";
            /**
             * @description The account it belongs to.
             * @example acct_01m7z12aypfmvv4snqnjfg9r62
             */
            accountId: string;
            /** @description State right after the event. */
            data: {
                /**
                 * @description The id that the conversation had.
                 * @example conv_01m7z12aypfmvv4snqnjfg9r62
                 */
                conversationId: string;
            } | components["schemas"]["Erased"];
        };
        CreateWebhookInput: {
            /**
             * @description The URL to send events to: `https`, and reachable from the internet.
             * @example https://example.com/hooks
             */
            url: string;
            /** @description The event types to send; by default `conversation.started`, `message.received`, `conversation.closed`, `lead.captured`. */
            events?: ("conversation.started" | "message.received" | "conversation.closed" | "lead.captured" | "message.sent" | "conversation.reopened" | "conversation.updated" | "conversation.read" | "conversation.deleted")[] | null;
            /** @description What it is for. */
            description?: string | null;
        };
        /** @description A webhook with its secret, which is shown only at creation and rotation. */
        WebhookWithSecret: {
            /**
             * @description Its id.
             * @example whk_01m7z12aypfmvv4snqnjfg9r62
             */
            id: string;
            /**
             * @description The URL events are sent to.
             * @example https://example.com/hooks
             */
            url: string;
            /** @description The event types that are sent. */
            events: ("conversation.started" | "message.received" | "conversation.closed" | "lead.captured" | "message.sent" | "conversation.reopened" | "conversation.updated" | "conversation.read" | "conversation.deleted")[];
            /**
             * @description What it is for.
             * @example notifies the shop
             */
            description: string | null;
            /**
             * @description Whether events are sent; while false, its deliveries are paused.
             * @example true
             */
            enabled: boolean;
            /**
             * @description Why it is disabled; null while it is enabled.
             * @example null
             */
            disabledReason: ("requested" | "gone" | "failing") | null;
            /**
             * Format: date-time
             * @description When it was created.
             * @example 2026-11-21T06:12:00.000Z
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description When it last changed.
             * @example 2026-11-21T06:12:00.000Z
             */
            updatedAt: string;
            /**
             * @description The secret that signs its deliveries, in the form of Standard Webhooks. Null in a replayed response.
             * @example whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw
             */
            secret: string | null;
        };
        /** @description A page of a list of Webhook. */
        WebhookList: {
            /** @description The items of the page. */
            data: components["schemas"]["Webhook"][];
            pagination: components["schemas"]["Pagination"];
        };
        /** @description An endpoint that events are sent to. */
        Webhook: {
            /**
             * @description Its id.
             * @example whk_01m7z12aypfmvv4snqnjfg9r62
             */
            id: string;
            /**
             * @description The URL events are sent to.
             * @example https://example.com/hooks
             */
            url: string;
            /** @description The event types that are sent. */
            events: ("conversation.started" | "message.received" | "conversation.closed" | "lead.captured" | "message.sent" | "conversation.reopened" | "conversation.updated" | "conversation.read" | "conversation.deleted")[];
            /**
             * @description What it is for.
             * @example notifies the shop
             */
            description: string | null;
            /**
             * @description Whether events are sent; while false, its deliveries are paused.
             * @example true
             */
            enabled: boolean;
            /**
             * @description Why it is disabled; null while it is enabled.
             * @example null
             */
            disabledReason: ("requested" | "gone" | "failing") | null;
            /**
             * Format: date-time
             * @description When it was created.
             * @example 2026-11-21T06:12:00.000Z
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description When it last changed.
             * @example 2026-11-21T06:12:00.000Z
             */
            updatedAt: string;
        };
        UpdateWebhookInput: {
            /**
             * @description The URL to send events to: `https`, and reachable from the internet.
             * @example https://example.com/hooks
             */
            url?: string;
            /** @description The event types to send. */
            events?: ("conversation.started" | "message.received" | "conversation.closed" | "lead.captured" | "message.sent" | "conversation.reopened" | "conversation.updated" | "conversation.read" | "conversation.deleted")[];
            /** @description What it is for. */
            description?: string | null;
            /** @description Whether events are sent. While it is disabled, no deliveries are created for new events. */
            enabled?: boolean;
        };
        RotateWebhookSecretInput: Record<string, never>;
        TestWebhookInput: {
            /** @description Type of the sample; by default the first that the webhook subscribes to. */
            eventType?: ("conversation.started" | "message.received" | "conversation.closed" | "lead.captured" | "message.sent" | "conversation.reopened" | "conversation.updated" | "conversation.read" | "conversation.deleted") | null;
        };
        /** @description The delivery of one event to one webhook, with all its attempts. */
        DeliveryWithAttempts: {
            /**
             * @description Its id.
             * @example dlv_01m7z12aypfmvv4snqnjfg9r62
             */
            id: string;
            /**
             * @description The webhook it is sent to.
             * @example whk_01m7z12aypfmvv4snqnjfg9r62
             */
            webhookId: string;
            /**
             * @description The event it delivers; the `webhook-id` header of each attempt.
             * @example evt_01m7z12aypfmvv4snqnjfg9r62
             */
            eventId: string;
            /**
             * @description The type of the event.
             * @enum {string}
             */
            eventType: "conversation.started" | "message.received" | "conversation.closed" | "lead.captured" | "message.sent" | "conversation.reopened" | "conversation.updated" | "conversation.read" | "conversation.deleted";
            /** @description Whether it is a sample sent by testWebhook. */
            test: boolean;
            /**
             * @description Its status; `paused` means pending while the webhook is disabled.
             * @enum {string}
             */
            status: "pending" | "succeeded" | "failed" | "paused";
            /**
             * @description Number of attempts that have ended.
             * @example 1
             */
            attemptCount: number;
            /** @description When the next attempt is due; null during an attempt, while paused and when completed. */
            nextAttemptAt: string | null;
            /**
             * Format: date-time
             * @description When it was created.
             * @example 2026-11-21T06:12:00.000Z
             */
            createdAt: string;
            /**
             * @description When it succeeded or finally failed; null until then.
             * @example null
             */
            completedAt: string | null;
            /** @description All its attempts, oldest first. */
            attempts: components["schemas"]["Attempt"][];
        };
        /** @description One attempt at a delivery. */
        Attempt: {
            /**
             * @description Its id.
             * @example att_01m7z12aypfmvv4snqnjfg9r62
             */
            id: string;
            /**
             * Format: date-time
             * @description When it started.
             * @example 2026-11-21T06:12:00.000Z
             */
            startedAt: string;
            /**
             * @description Duration in milliseconds.
             * @example 84
             */
            durationMs: number;
            /**
             * @description What triggered it: the schedule or a request.
             * @enum {string}
             */
            trigger: "schedule" | "manual";
            /**
             * @description HTTP status of the response; null if there was none.
             * @example 503
             */
            responseStatus: number | null;
            /**
             * @description The first 16 KiB of the response body, as text, or 256 characters once an account has kept 8 MiB within an hour; null if there was no response or its conversation was deleted.
             * @example try again later
             */
            responseBody: string | null;
            /**
             * @description The error, unless it was the response status; null otherwise.
             * @example null
             */
            error: string | null;
        };
        RecoverWebhookInput: {
            /**
             * @description An RFC 3339 time, to repeat the deliveries that finally failed since then, however old their events are; or an event cursor, to repeat the failed deliveries of the events after it.
             * @example 2026-11-21T06:12:00.000Z
             */
            since: string;
        };
        /** @description The result of recoverWebhook. */
        Recovery: {
            /**
             * @description Number of deliveries being repeated.
             * @example 3
             */
            count: number;
        };
        /** @description A page of a list of Delivery. */
        DeliveryList: {
            /** @description The items of the page. */
            data: components["schemas"]["Delivery"][];
            pagination: components["schemas"]["Pagination"];
        };
        /** @description The delivery of one event to one webhook. */
        Delivery: {
            /**
             * @description Its id.
             * @example dlv_01m7z12aypfmvv4snqnjfg9r62
             */
            id: string;
            /**
             * @description The webhook it is sent to.
             * @example whk_01m7z12aypfmvv4snqnjfg9r62
             */
            webhookId: string;
            /**
             * @description The event it delivers; the `webhook-id` header of each attempt.
             * @example evt_01m7z12aypfmvv4snqnjfg9r62
             */
            eventId: string;
            /**
             * @description The type of the event.
             * @enum {string}
             */
            eventType: "conversation.started" | "message.received" | "conversation.closed" | "lead.captured" | "message.sent" | "conversation.reopened" | "conversation.updated" | "conversation.read" | "conversation.deleted";
            /** @description Whether it is a sample sent by testWebhook. */
            test: boolean;
            /**
             * @description Its status; `paused` means pending while the webhook is disabled.
             * @enum {string}
             */
            status: "pending" | "succeeded" | "failed" | "paused";
            /**
             * @description Number of attempts that have ended.
             * @example 1
             */
            attemptCount: number;
            /** @description When the next attempt is due; null during an attempt, while paused and when completed. */
            nextAttemptAt: string | null;
            /**
             * Format: date-time
             * @description When it was created.
             * @example 2026-11-21T06:12:00.000Z
             */
            createdAt: string;
            /**
             * @description When it succeeded or finally failed; null until then.
             * @example null
             */
            completedAt: string | null;
        };
        RedeliverInput: Record<string, never>;
        /** @description A report on the activity in a period. */
        Analytics: {
            /** @description The reported period. */
            period: {
                /**
                 * Format: date-time
                 * @description Start, inclusive.
                 * @example 2026-11-21T06:12:00.000Z
                 */
                from: string;
                /**
                 * Format: date-time
                 * @description End, exclusive.
                 * @example 2026-11-21T06:12:00.000Z
                 */
                to: string;
                /**
                 * @description Length of one point of the series.
                 * @enum {string}
                 */
                interval: "hour" | "day" | "week" | "month";
                /**
                 * @description IANA time zone whose calendar the points follow.
                 * @example Europe/Berlin
                 */
                timezone: string;
            };
            /** @description Conversations open at this moment, regardless of the period. */
            openNow: {
                /**
                 * @description Conversations being handled.
                 * @example 1
                 */
                active: number;
                /**
                 * @description Conversations waiting for an agent.
                 * @example 0
                 */
                pending: number;
            };
            /** @description Figures for the whole period. */
            totals: components["schemas"]["AnalyticsFigures"];
            /** @description Figures for the preceding period, which ends where this one begins. With hourly points it has the same number of hours, otherwise the same number of calendar days in the time zone; with monthly points and a period of whole months, the same number of months. */
            previous: components["schemas"]["AnalyticsFigures"];
            /** @description The period divided by the interval, in order and without gaps, at most 1,000 points. The first and the last point are cut to the period, so that the counts of all points add up to the totals. */
            series: components["schemas"]["AnalyticsFigures"][];
        };
        /** @description Number of messages sent, by sender. */
        MessageCounts: {
            /**
             * @description Messages sent by agents.
             * @example 12
             */
            agent: number;
            /**
             * @description Messages sent by visitors.
             * @example 14
             */
            visitor: number;
            /**
             * @description Messages sent by bots.
             * @example 0
             */
            bot: number;
        };
        /** @description Durations in seconds. Median and 90th percentile are within 1 % of the exact values, which are interpolated linearly between the two nearest durations. */
        DurationFigures: {
            /**
             * @description Number of durations.
             * @example 3
             */
            count: number;
            /**
             * @description Exact mean; null if there are none.
             * @example 140.5
             */
            mean: number | null;
            /**
             * @description Median; null if there are none.
             * @example 121
             */
            median: number | null;
            /**
             * @description 90th percentile; null if there are none.
             * @example 236
             */
            p90: number | null;
        };
        /** @description Figures for a span of time, counted as things happened: later changes and deletions do not alter them. */
        AnalyticsFigures: {
            /**
             * Format: date-time
             * @description Start, inclusive.
             * @example 2026-11-21T06:12:00.000Z
             */
            from: string;
            /**
             * Format: date-time
             * @description End, exclusive.
             * @example 2026-11-21T06:12:00.000Z
             */
            to: string;
            /**
             * @description Number of conversations created.
             * @example 4
             */
            conversationsStarted: number;
            /**
             * @description Number of closings: a conversation that was reopened and closed again counts twice.
             * @example 3
             */
            conversationsClosed: number;
            /**
             * @description Number of reopenings, by request or by a message from the visitor.
             * @example 1
             */
            conversationsReopened: number;
            messages: components["schemas"]["MessageCounts"];
            /**
             * @description Number of leads captured, with or without a conversation.
             * @example 1
             */
            leads: number;
            /**
             * @description Share, from 0 to 1, of the conversations started in this span that have a lead, whenever it was captured: it can still grow. Null if none was started.
             * @example 0.25
             */
            conversionRate: number | null;
            /** @description Time from a conversation’s first visitor message to the first agent message after it; a bot’s message is no response. Counted once per conversation, at the time of the response. */
            firstResponseSeconds: components["schemas"]["DurationFigures"];
            /** @description Time from a conversation’s creation, or its last reopening, to its closing. Counted at each closing. */
            resolutionSeconds: components["schemas"]["DurationFigures"];
        };
        /** @description The account that the credential belongs to. */
        Account: {
            /**
             * @description Its id.
             * @example acct_01m7z12aypfmvv4snqnjfg9r62
             */
            id: string;
            /**
             * @description Its name.
             * @example Acme Support
             */
            name: string;
            /**
             * @description Its plan.
             * @enum {string}
             */
            plan: "trial" | "pro" | "business";
            /** @description Its request budget, shared by all its credentials and by REST and GraphQL. */
            rateLimit: {
                /**
                 * @description Maximum number of requests in any 60 minutes.
                 * @example 1000
                 */
                limit: number;
                /**
                 * @description Requests left at this moment.
                 * @example 998
                 */
                remaining: number;
                /**
                 * Format: date-time
                 * @description When `remaining` next grows.
                 * @example 2026-11-21T06:12:00.000Z
                 */
                resetAt: string;
            };
            /**
             * @description A cursor at the end of its event log.
             * @example NWUwYzFhN2YuMTA0MQ
             */
            eventCursor: string;
            /**
             * Format: date-time
             * @description When it was created.
             * @example 2026-11-21T06:12:00.000Z
             */
            createdAt: string;
        };
        CreateApiKeyInput: {
            /**
             * @description A name to recognise the key by.
             * @example dashboard
             */
            name: string;
            /** @description Its scopes: by default all those of the calling credential, and never more. */
            scopes?: ("conversations:read" | "conversations:write" | "leads:read" | "leads:write" | "events:read" | "webhooks:manage" | "analytics:read" | "keys:manage")[] | null;
            /** @description When it expires: not after the calling credential, and by default when that does, if ever. */
            expiresAt?: string | null;
        };
        /** @description A new key with its secret, which is shown only once. */
        NewApiKey: {
            /**
             * @description Its id.
             * @example key_01m7z12aypfmvv4snqnjfg9r62
             */
            id: string;
            /**
             * @description A name to recognise it by.
             * @example dashboard
             */
            name: string;
            /**
             * @description The first characters of its secret, to tell keys apart.
             * @example cs_9fQ2x
             */
            prefix: string;
            /** @description Its scopes. */
            scopes: ("conversations:read" | "conversations:write" | "leads:read" | "leads:write" | "events:read" | "webhooks:manage" | "analytics:read" | "keys:manage")[];
            /**
             * @description When it expires; null if it does not.
             * @example null
             */
            expiresAt: string | null;
            /**
             * @description When it was last used, to the minute; null if it never was.
             * @example null
             */
            lastUsedAt: string | null;
            /**
             * Format: date-time
             * @description When it was created.
             * @example 2026-11-21T06:12:00.000Z
             */
            createdAt: string;
            /**
             * @description When it was revoked; null if it was not.
             * @example null
             */
            revokedAt: string | null;
            /**
             * @description The secret, to be sent as the credential.
             * @example cs_9fQ2xWm4Jq0sN8bYvT6cRzLkHgDpAeUoIiXyE3w5F71
             */
            secret: string;
        };
        /** @description A page of a list of ApiKey. */
        ApiKeyList: {
            /** @description The items of the page. */
            data: components["schemas"]["ApiKey"][];
            pagination: components["schemas"]["Pagination"];
        };
        /** @description A key with which programs authenticate. */
        ApiKey: {
            /**
             * @description Its id.
             * @example key_01m7z12aypfmvv4snqnjfg9r62
             */
            id: string;
            /**
             * @description A name to recognise it by.
             * @example dashboard
             */
            name: string;
            /**
             * @description The first characters of its secret, to tell keys apart.
             * @example cs_9fQ2x
             */
            prefix: string;
            /** @description Its scopes. */
            scopes: ("conversations:read" | "conversations:write" | "leads:read" | "leads:write" | "events:read" | "webhooks:manage" | "analytics:read" | "keys:manage")[];
            /**
             * @description When it expires; null if it does not.
             * @example null
             */
            expiresAt: string | null;
            /**
             * @description When it was last used, to the minute; null if it never was.
             * @example null
             */
            lastUsedAt: string | null;
            /**
             * Format: date-time
             * @description When it was created.
             * @example 2026-11-21T06:12:00.000Z
             */
            createdAt: string;
            /**
             * @description When it was revoked; null if it was not.
             * @example null
             */
            revokedAt: string | null;
        };
        /**
         * @example {
         *       "scopes": [
         *         "conversations:read",
         *         "conversations:write"
         *       ],
         *       "visitor": {
         *         "id": "customer-7",
         *         "name": "Ada"
         *       },
         *       "requestsPerHour": 60
         *     }
         */
        CreateTokenInput: {
            /** @description Its scopes, each of which the calling API key must have. */
            scopes: ("conversations:read" | "conversations:write" | "leads:read" | "leads:write" | "events:read" | "webhooks:manage" | "analytics:read" | "keys:manage")[];
            /** @description Restricts the token to reading this conversation, sending messages to it and following its events. */
            conversationId?: string | null;
            /** @description Restricts the token to the conversations of this visitor: to listing and reading them, following their events, starting new ones, sending messages and capturing leads in them, and moving the read position of `visitor`. Not together with `conversationId`. */
            visitor?: {
                /**
                 * @description The visitor’s id in the client’s system.
                 * @example customer-7
                 */
                id: string;
                /**
                 * @description The visitor’s name, in conversations that the token starts.
                 * @example Ada
                 */
                name?: string | null;
                /** @description The visitor’s email address, in conversations that the token starts. */
                email?: string | null;
            } | null;
            /** @description Restricts the token to sending messages as this sender. A token bound to a conversation sends as `visitor` unless another is given, and one bound to a visitor always does. */
            sender?: ("agent" | "visitor" | "bot") | null;
            /**
             * @description For a token bound to a conversation or a visitor: how many of the account’s requests it may spend in any 60 minutes, together with other tokens that are bound to the same. By default the larger of 60 and a fiftieth of the account’s limit, and never more than half of that.
             * @example 60
             */
            requestsPerHour?: number | null;
            /** @description Restricts the token to running registered GraphQL documents, by their ids: it can send no other document, and cannot call REST. */
            trustedDocumentsOnly?: boolean | null;
            /** @description Lifetime in seconds: 60 to 3600, by default 900. The token ends with its API key in any case. */
            expiresInSeconds?: number | null;
        };
        /** @description A new token. It is not stored and cannot be shown again. */
        NewToken: {
            /**
             * @description The token, a JWT (RFC 7519), to be sent as `Authorization: Bearer …`.
             * @example eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhY2N0In0.c2lnbmF0dXJl
             */
            token: string;
            /**
             * Format: date-time
             * @description When it expires.
             * @example 2026-11-21T06:12:00.000Z
             */
            expiresAt: string;
            /** @description Its scopes. */
            scopes: ("conversations:read" | "conversations:write" | "leads:read" | "leads:write" | "events:read" | "webhooks:manage" | "analytics:read" | "keys:manage")[];
            /** @description The only conversation it gives access to; null for all, or for all of its visitor. */
            conversationId: string | null;
            /** @description The visitor to whose conversations alone it gives access; null if it is not bound to one. */
            visitor: components["schemas"]["Visitor"] | null;
            /** @description The only sender it can send messages as; null for any. */
            sender: ("agent" | "visitor" | "bot") | null;
            /**
             * @description How many requests it may send in any 60 minutes, together with other tokens that are bound to the same; null if it is bound to nothing.
             * @example 60
             */
            requestsPerHour: number | null;
            /** @description Whether it can run registered GraphQL documents only, and call nothing else. */
            trustedDocumentsOnly: boolean;
        };
        RegisterDocumentsInput: {
            /** @description The documents, at most 100. One that is registered already stays as it is. */
            documents: {
                /**
                 * @description The id by which clients will call it: 1 to 128 characters. One of 64 hexadecimal digits must be the SHA-256 of the text.
                 * @example sha256:7f83b1657ff1fc53b92dc18148a1d65dfc2d4b1fa3d677284addd200126d9069
                 */
                id: string;
                /**
                 * @description Its text, in GraphQL: at most 16 KiB.
                 * @example query Account { account { name } }
                 */
                text: string;
            }[];
        };
        /** @description Documents that are registered now. */
        RegisteredDocuments: {
            /** @description The documents, each once. */
            documents: components["schemas"]["TrustedDocument"][];
        };
        /** @description A GraphQL document that clients call by its id. */
        TrustedDocument: {
            /**
             * @description The id by which clients call it: that of the tool which has found it in their code.
             * @example sha256:7f83b1657ff1fc53b92dc18148a1d65dfc2d4b1fa3d677284addd200126d9069
             */
            id: string;
            /**
             * @description Its text, in GraphQL.
             * @example query Account { account { name } }
             */
            text: string;
            /**
             * Format: date-time
             * @description When it was registered.
             * @example 2026-11-21T06:12:00.000Z
             */
            createdAt: string;
        };
        /** @description A page of a list of TrustedDocument. */
        TrustedDocumentList: {
            /** @description The items of the page. */
            data: components["schemas"]["TrustedDocument"][];
            pagination: components["schemas"]["Pagination"];
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export interface operations {
    listConversations: {
        parameters: {
            query?: {
                /** @description Maximum number of items to return, 1 to 100. */
                limit?: number;
                /**
                 * @description Number of items to skip. The cost grows with it; that of a cursor does not.
                 * @example 40
                 */
                offset?: number;
                /**
                 * @description Continue after this cursor: a `nextCursor` or an edge’s `cursor` from a list with the same sort.
                 * @example WyItY3JlYXRlZEF0IiwiY29udl8wMW03ejEyYXlwZm12djRzbnFuamZnOXI2MiJd
                 */
                after?: string;
                /** @description `none` leaves the total out, which a list with filters otherwise has to count. */
                total?: "none";
                /** @description Sort order; a minus sign means descending. Ties are broken by id. */
                sort?: "-createdAt" | "createdAt" | "-lastActivityAt" | "lastActivityAt";
                /**
                 * @description Only conversations with one of these statuses. Several are separated by commas, or the parameter is repeated.
                 * @example [
                 *       "active",
                 *       "pending"
                 *     ]
                 */
                status?: ("active" | "closed" | "pending")[];
                /**
                 * @description Only the conversation with this `externalId`.
                 * @example ticket-1042
                 */
                externalId?: string;
                /**
                 * @description Only conversations of the visitor with this id.
                 * @example customer-7
                 */
                visitorId?: string;
                /**
                 * @description Only conversations of visitors with this email address, in upper or lower case.
                 * @example ada@example.com
                 */
                visitorEmail?: string;
                /**
                 * @description Only conversations that this agent has.
                 * @example agent-3
                 */
                assigneeId?: string;
                /**
                 * @description Only conversations that no agent has, or with `false` only those that one has.
                 * @example true
                 */
                unassigned?: boolean;
                /**
                 * @description Only conversations in which this reader has a position, and messages after it.
                 * @example agent-3
                 */
                unreadBy?: string;
                /**
                 * @description Only conversations with all of these tags. Several are separated by commas, or the parameter is repeated.
                 * @example [
                 *       "urgent"
                 *     ]
                 */
                tags?: string[];
                /**
                 * @description Only conversations created after this time.
                 * @example 2026-11-21T06:12:00.000Z
                 */
                createdAfter?: string;
                /**
                 * @description Only conversations created before this time.
                 * @example 2026-11-21T06:12:00.000Z
                 */
                createdBefore?: string;
                /**
                 * @description Only conversations changed after this time.
                 * @example 2026-11-21T06:12:00.000Z
                 */
                updatedAfter?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of a list of ConversationWithReadPositions. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "data": [
                     *         {
                     *           "id": "conv_01m7z12aypfmvv4snqnjfg9r62",
                     *           "status": "active",
                     *           "subject": "Parcel 1042",
                     *           "visitor": {
                     *             "id": "customer-7",
                     *             "name": "Ada",
                     *             "email": "ada@example.com"
                     *           },
                     *           "externalId": "ticket-1042",
                     *           "assignee": {
                     *             "id": "agent-3",
                     *             "name": "Grace"
                     *           },
                     *           "tags": [
                     *             "delivery",
                     *             "urgent"
                     *           ],
                     *           "metadata": {
                     *             "orderId": 1042
                     *           },
                     *           "messageCount": 1,
                     *           "lastMessage": {
                     *             "id": "msg_01m7z12aypfmvv4snqnjfg9r62",
                     *             "sequence": 1,
                     *             "sender": "agent",
                     *             "author": {
                     *               "id": "agent-3",
                     *               "name": "Grace"
                     *             },
                     *             "createdAt": "2026-11-21T06:12:00.000Z",
                     *             "preview": "It will be with you tomorrow."
                     *           },
                     *           "lastActivityAt": "2026-11-21T06:12:00.000Z",
                     *           "firstResponseAt": null,
                     *           "closedAt": null,
                     *           "version": 1,
                     *           "createdAt": "2026-11-21T06:12:00.000Z",
                     *           "updatedAt": "2026-11-21T06:12:00.000Z",
                     *           "readPositions": [
                     *             {
                     *               "reader": "agent-3",
                     *               "sequence": 0,
                     *               "readAt": "2026-11-21T06:12:00.000Z"
                     *             }
                     *           ]
                     *         }
                     *       ],
                     *       "pagination": {
                     *         "limit": 20,
                     *         "offset": 0,
                     *         "total": 1,
                     *         "hasMore": false,
                     *         "nextCursor": null
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["ConversationWithReadPositionsList"];
                };
            };
        };
    };
    createConversation: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "subject": "Parcel 1042",
                 *       "visitor": {
                 *         "name": "Ada"
                 *       },
                 *       "assignee": {
                 *         "id": "agent-3",
                 *         "name": "Grace"
                 *       },
                 *       "message": {
                 *         "content": "It will be with you tomorrow.",
                 *         "sender": "agent",
                 *         "author": {
                 *           "name": "Grace"
                 *         },
                 *         "clientId": "draft-17"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["CreateConversationInput"];
            };
        };
        responses: {
            /** @description A conversation with a visitor, including all its messages. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "conv_01m7z12aypfmvv4snqnjfg9r62",
                     *       "status": "active",
                     *       "subject": "Parcel 1042",
                     *       "visitor": {
                     *         "id": "customer-7",
                     *         "name": "Ada",
                     *         "email": "ada@example.com"
                     *       },
                     *       "externalId": "ticket-1042",
                     *       "assignee": {
                     *         "id": "agent-3",
                     *         "name": "Grace"
                     *       },
                     *       "tags": [
                     *         "delivery",
                     *         "urgent"
                     *       ],
                     *       "metadata": {
                     *         "orderId": 1042
                     *       },
                     *       "messageCount": 1,
                     *       "lastMessage": {
                     *         "id": "msg_01m7z12aypfmvv4snqnjfg9r62",
                     *         "sequence": 1,
                     *         "sender": "agent",
                     *         "author": {
                     *           "id": "agent-3",
                     *           "name": "Grace"
                     *         },
                     *         "createdAt": "2026-11-21T06:12:00.000Z",
                     *         "preview": "It will be with you tomorrow."
                     *       },
                     *       "lastActivityAt": "2026-11-21T06:12:00.000Z",
                     *       "firstResponseAt": null,
                     *       "closedAt": null,
                     *       "version": 1,
                     *       "createdAt": "2026-11-21T06:12:00.000Z",
                     *       "updatedAt": "2026-11-21T06:12:00.000Z",
                     *       "readPositions": [
                     *         {
                     *           "reader": "agent-3",
                     *           "sequence": 0,
                     *           "readAt": "2026-11-21T06:12:00.000Z"
                     *         }
                     *       ],
                     *       "messages": [
                     *         {
                     *           "id": "msg_01m7z12aypfmvv4snqnjfg9r62",
                     *           "conversationId": "conv_01m7z12aypfmvv4snqnjfg9r62",
                     *           "sequence": 1,
                     *           "sender": "agent",
                     *           "content": "It will be with you tomorrow.",
                     *           "author": {
                     *             "id": "agent-3",
                     *             "name": "Grace"
                     *           },
                     *           "clientId": "draft-17",
                     *           "metadata": {
                     *             "orderId": 1042
                     *           },
                     *           "createdAt": "2026-11-21T06:12:00.000Z"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["ConversationWithMessages"];
                };
            };
        };
    };
    getConversation: {
        parameters: {
            query?: {
                /**
                 * @description Which messages to return: all by default, none with `none`, the newest 20 with `last:20`; at most 100.
                 * @example last:20
                 */
                messages?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The conversation’s id.
                 * @example conv_01m7z12aypfmvv4snqnjfg9r62
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A conversation with a visitor, including its messages unless they are left out. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "conv_01m7z12aypfmvv4snqnjfg9r62",
                     *       "status": "active",
                     *       "subject": "Parcel 1042",
                     *       "visitor": {
                     *         "id": "customer-7",
                     *         "name": "Ada",
                     *         "email": "ada@example.com"
                     *       },
                     *       "externalId": "ticket-1042",
                     *       "assignee": {
                     *         "id": "agent-3",
                     *         "name": "Grace"
                     *       },
                     *       "tags": [
                     *         "delivery",
                     *         "urgent"
                     *       ],
                     *       "metadata": {
                     *         "orderId": 1042
                     *       },
                     *       "messageCount": 1,
                     *       "lastMessage": {
                     *         "id": "msg_01m7z12aypfmvv4snqnjfg9r62",
                     *         "sequence": 1,
                     *         "sender": "agent",
                     *         "author": {
                     *           "id": "agent-3",
                     *           "name": "Grace"
                     *         },
                     *         "createdAt": "2026-11-21T06:12:00.000Z",
                     *         "preview": "It will be with you tomorrow."
                     *       },
                     *       "lastActivityAt": "2026-11-21T06:12:00.000Z",
                     *       "firstResponseAt": null,
                     *       "closedAt": null,
                     *       "version": 1,
                     *       "createdAt": "2026-11-21T06:12:00.000Z",
                     *       "updatedAt": "2026-11-21T06:12:00.000Z",
                     *       "readPositions": [
                     *         {
                     *           "reader": "agent-3",
                     *           "sequence": 0,
                     *           "readAt": "2026-11-21T06:12:00.000Z"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["OpenConversation"];
                };
            };
        };
    };
    deleteConversation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The conversation’s id.
                 * @example conv_01m7z12aypfmvv4snqnjfg9r62
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done, no content. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    updateConversation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The conversation’s id.
                 * @example conv_01m7z12aypfmvv4snqnjfg9r62
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "subject": "Parcel 1042",
                 *       "visitor": {
                 *         "name": "Ada"
                 *       },
                 *       "assignee": {
                 *         "id": "agent-3",
                 *         "name": "Grace"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["UpdateConversationInput"];
            };
        };
        responses: {
            /** @description A conversation with a visitor, without its messages. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "conv_01m7z12aypfmvv4snqnjfg9r62",
                     *       "status": "active",
                     *       "subject": "Parcel 1042",
                     *       "visitor": {
                     *         "id": "customer-7",
                     *         "name": "Ada",
                     *         "email": "ada@example.com"
                     *       },
                     *       "externalId": "ticket-1042",
                     *       "assignee": {
                     *         "id": "agent-3",
                     *         "name": "Grace"
                     *       },
                     *       "tags": [
                     *         "delivery",
                     *         "urgent"
                     *       ],
                     *       "metadata": {
                     *         "orderId": 1042
                     *       },
                     *       "messageCount": 1,
                     *       "lastMessage": {
                     *         "id": "msg_01m7z12aypfmvv4snqnjfg9r62",
                     *         "sequence": 1,
                     *         "sender": "agent",
                     *         "author": {
                     *           "id": "agent-3",
                     *           "name": "Grace"
                     *         },
                     *         "createdAt": "2026-11-21T06:12:00.000Z",
                     *         "preview": "It will be with you tomorrow."
                     *       },
                     *       "lastActivityAt": "2026-11-21T06:12:00.000Z",
                     *       "firstResponseAt": null,
                     *       "closedAt": null,
                     *       "version": 1,
                     *       "createdAt": "2026-11-21T06:12:00.000Z",
                     *       "updatedAt": "2026-11-21T06:12:00.000Z",
                     *       "readPositions": [
                     *         {
                     *           "reader": "agent-3",
                     *           "sequence": 0,
                     *           "readAt": "2026-11-21T06:12:00.000Z"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["ConversationWithReadPositions"];
                };
            };
        };
    };
    listMessages: {
        parameters: {
            query?: {
                /** @description Maximum number of items to return, 1 to 100. */
                limit?: number;
                /**
                 * @description Number of messages to skip, at no extra cost.
                 * @example 40
                 */
                offset?: number;
                /**
                 * @description Continue after this cursor: a `nextCursor` or an edge’s `cursor` from a list with the same sort.
                 * @example WyJzZXF1ZW5jZSIsMjBd
                 */
                after?: string;
                /** @description `none` leaves the total out, which a list with filters otherwise has to count. */
                total?: "none";
                /** @description Sort order: oldest first, or newest first with `-sequence`. */
                sort?: "sequence" | "-sequence";
            };
            header?: never;
            path: {
                /**
                 * @description The conversation’s id.
                 * @example conv_01m7z12aypfmvv4snqnjfg9r62
                 */
                conversationId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of a list of Message. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "data": [
                     *         {
                     *           "id": "msg_01m7z12aypfmvv4snqnjfg9r62",
                     *           "conversationId": "conv_01m7z12aypfmvv4snqnjfg9r62",
                     *           "sequence": 1,
                     *           "sender": "agent",
                     *           "content": "It will be with you tomorrow.",
                     *           "author": {
                     *             "id": "agent-3",
                     *             "name": "Grace"
                     *           },
                     *           "clientId": "draft-17",
                     *           "metadata": {
                     *             "orderId": 1042
                     *           },
                     *           "createdAt": "2026-11-21T06:12:00.000Z"
                     *         }
                     *       ],
                     *       "pagination": {
                     *         "limit": 20,
                     *         "offset": 0,
                     *         "total": 1,
                     *         "hasMore": false,
                     *         "nextCursor": null
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["MessageList"];
                };
            };
        };
    };
    sendMessage: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The conversation to send it to.
                 * @example conv_01m7z12aypfmvv4snqnjfg9r62
                 */
                conversationId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "content": "It will be with you tomorrow.",
                 *       "sender": "agent",
                 *       "author": {
                 *         "name": "Grace"
                 *       },
                 *       "clientId": "draft-17"
                 *     }
                 */
                "application/json": components["schemas"]["SendMessageInput"];
            };
        };
        responses: {
            /** @description A message in a conversation. Messages never change. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "msg_01m7z12aypfmvv4snqnjfg9r62",
                     *       "conversationId": "conv_01m7z12aypfmvv4snqnjfg9r62",
                     *       "sequence": 1,
                     *       "sender": "agent",
                     *       "content": "It will be with you tomorrow.",
                     *       "author": {
                     *         "id": "agent-3",
                     *         "name": "Grace"
                     *       },
                     *       "clientId": "draft-17",
                     *       "metadata": {
                     *         "orderId": 1042
                     *       },
                     *       "createdAt": "2026-11-21T06:12:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Message"];
                };
            };
        };
    };
    getMessage: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The message’s id.
                 * @example msg_01m7z12aypfmvv4snqnjfg9r62
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A message in a conversation. Messages never change. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "msg_01m7z12aypfmvv4snqnjfg9r62",
                     *       "conversationId": "conv_01m7z12aypfmvv4snqnjfg9r62",
                     *       "sequence": 1,
                     *       "sender": "agent",
                     *       "content": "It will be with you tomorrow.",
                     *       "author": {
                     *         "id": "agent-3",
                     *         "name": "Grace"
                     *       },
                     *       "clientId": "draft-17",
                     *       "metadata": {
                     *         "orderId": 1042
                     *       },
                     *       "createdAt": "2026-11-21T06:12:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Message"];
                };
            };
        };
    };
    markRead: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The conversation’s id.
                 * @example conv_01m7z12aypfmvv4snqnjfg9r62
                 */
                conversationId: string;
                /**
                 * @description Who has read: an agent’s id in your system, or `visitor`. 1 to 128 letters, digits and characters of `_.:@+-`.
                 * @example agent-3
                 */
                reader: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "sequence": 0
                 *     }
                 */
                "application/json": components["schemas"]["MarkReadInput"];
            };
        };
        responses: {
            /** @description How far a reader has read a conversation. It only moves forward. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "reader": "agent-3",
                     *       "sequence": 0,
                     *       "readAt": "2026-11-21T06:12:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["ReadPosition"];
                };
            };
        };
    };
    search: {
        parameters: {
            query: {
                /**
                 * @description The words: 1 to 256 characters and at most 10 words, the last one as a beginning. Case, width and accents do not count; quotes and operators mean nothing. In scripts without spaces between words, any run of characters is found.
                 * @example where parcel
                 */
                q: string;
                /**
                 * @description Only in conversations with one of these statuses. Several are separated by commas, or the parameter is repeated.
                 * @example [
                 *       "active",
                 *       "pending"
                 *     ]
                 */
                status?: ("active" | "closed" | "pending")[];
                /**
                 * @description Only in conversations that this agent has.
                 * @example agent-3
                 */
                assigneeId?: string;
                /**
                 * @description Only in conversations with all of these tags. Several are separated by commas, or the parameter is repeated.
                 * @example [
                 *       "urgent"
                 *     ]
                 */
                tags?: string[];
                /**
                 * @description Only messages sent, and conversations created, after this time.
                 * @example 2026-11-21T06:12:00.000Z
                 */
                createdAfter?: string;
                /**
                 * @description Only messages sent, and conversations created, before this time.
                 * @example 2026-11-21T06:12:00.000Z
                 */
                createdBefore?: string;
                /** @description Maximum number of items to return, 1 to 100. */
                limit?: number;
                /**
                 * @description Continue after this cursor: a `nextCursor` or an edge’s `cursor` from a list with the same sort.
                 * @example WyItY3JlYXRlZEF0IiwyMTQ3NDgzNjU5XQ
                 */
                after?: string;
                /** @description `none` leaves the total out, which a list with filters otherwise has to count. */
                total?: "none";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of search results, newest first. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "data": [
                     *         {
                     *           "conversation": {
                     *             "id": "conv_01m7z12aypfmvv4snqnjfg9r62",
                     *             "status": "active",
                     *             "subject": "Parcel 1042",
                     *             "visitor": {
                     *               "id": "customer-7",
                     *               "name": "Ada",
                     *               "email": "ada@example.com"
                     *             },
                     *             "externalId": "ticket-1042",
                     *             "assignee": {
                     *               "id": "agent-3",
                     *               "name": "Grace"
                     *             },
                     *             "tags": [
                     *               "delivery",
                     *               "urgent"
                     *             ],
                     *             "metadata": {
                     *               "orderId": 1042
                     *             },
                     *             "messageCount": 1,
                     *             "lastMessage": {
                     *               "id": "msg_01m7z12aypfmvv4snqnjfg9r62",
                     *               "sequence": 1,
                     *               "sender": "agent",
                     *               "author": {
                     *                 "id": "agent-3",
                     *                 "name": "Grace"
                     *               },
                     *               "createdAt": "2026-11-21T06:12:00.000Z",
                     *               "preview": "It will be with you tomorrow."
                     *             },
                     *             "lastActivityAt": "2026-11-21T06:12:00.000Z",
                     *             "firstResponseAt": null,
                     *             "closedAt": null,
                     *             "version": 1,
                     *             "createdAt": "2026-11-21T06:12:00.000Z",
                     *             "updatedAt": "2026-11-21T06:12:00.000Z"
                     *           },
                     *           "message": {
                     *             "id": "msg_01m7z12aypfmvv4snqnjfg9r62",
                     *             "conversationId": "conv_01m7z12aypfmvv4snqnjfg9r62",
                     *             "sequence": 1,
                     *             "sender": "agent",
                     *             "content": "It will be with you tomorrow.",
                     *             "author": {
                     *               "id": "agent-3",
                     *               "name": "Grace"
                     *             },
                     *             "clientId": "draft-17",
                     *             "metadata": {
                     *               "orderId": 1042
                     *             },
                     *             "createdAt": "2026-11-21T06:12:00.000Z"
                     *           },
                     *           "excerpt": [
                     *             {
                     *               "text": "parcel",
                     *               "match": false
                     *             }
                     *           ]
                     *         }
                     *       ],
                     *       "pagination": {
                     *         "limit": 20,
                     *         "total": 1,
                     *         "hasMore": false,
                     *         "nextCursor": null
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["SearchResultList"];
                };
            };
        };
    };
    listLeads: {
        parameters: {
            query?: {
                /** @description Maximum number of items to return, 1 to 100. */
                limit?: number;
                /**
                 * @description Number of items to skip. The cost grows with it; that of a cursor does not.
                 * @example 40
                 */
                offset?: number;
                /**
                 * @description Continue after this cursor: a `nextCursor` or an edge’s `cursor` from a list with the same sort.
                 * @example WyItY3JlYXRlZEF0IiwibGVhZF8wMW03ejEyYXlwZm12djRzbnFuamZnOXI2MiJd
                 */
                after?: string;
                /** @description `none` leaves the total out, which a list with filters otherwise has to count. */
                total?: "none";
                /**
                 * @description Only leads captured in this conversation.
                 * @example conv_01m7z12aypfmvv4snqnjfg9r62
                 */
                conversationId?: string;
                /**
                 * @description Only leads with this email address, in upper or lower case.
                 * @example ada@example.com
                 */
                email?: string;
                /**
                 * @description Only leads captured after this time.
                 * @example 2026-11-21T06:12:00.000Z
                 */
                createdAfter?: string;
                /**
                 * @description Only leads captured before this time.
                 * @example 2026-11-21T06:12:00.000Z
                 */
                createdBefore?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of a list of Lead. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "data": [
                     *         {
                     *           "id": "lead_01m7z12aypfmvv4snqnjfg9r62",
                     *           "conversationId": "conv_01m7z12aypfmvv4snqnjfg9r62",
                     *           "name": "Ada",
                     *           "email": "ada@example.com",
                     *           "phone": null,
                     *           "company": "Analytical Engines",
                     *           "metadata": {
                     *             "orderId": 1042
                     *           },
                     *           "createdAt": "2026-11-21T06:12:00.000Z"
                     *         }
                     *       ],
                     *       "pagination": {
                     *         "limit": 20,
                     *         "offset": 0,
                     *         "total": 1,
                     *         "hasMore": false,
                     *         "nextCursor": null
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["LeadList"];
                };
            };
        };
    };
    captureLead: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "conversationId": "conv_01m7z12aypfmvv4snqnjfg9r62",
                 *       "name": "Ada",
                 *       "email": "ada@example.com"
                 *     }
                 */
                "application/json": components["schemas"]["CaptureLeadInput"];
            };
        };
        responses: {
            /** @description Contact details left by a visitor. A lead never changes. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "lead_01m7z12aypfmvv4snqnjfg9r62",
                     *       "conversationId": "conv_01m7z12aypfmvv4snqnjfg9r62",
                     *       "name": "Ada",
                     *       "email": "ada@example.com",
                     *       "phone": null,
                     *       "company": "Analytical Engines",
                     *       "metadata": {
                     *         "orderId": 1042
                     *       },
                     *       "createdAt": "2026-11-21T06:12:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Lead"];
                };
            };
        };
    };
    getLead: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The lead’s id.
                 * @example lead_01m7z12aypfmvv4snqnjfg9r62
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Contact details left by a visitor. A lead never changes. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "lead_01m7z12aypfmvv4snqnjfg9r62",
                     *       "conversationId": "conv_01m7z12aypfmvv4snqnjfg9r62",
                     *       "name": "Ada",
                     *       "email": "ada@example.com",
                     *       "phone": null,
                     *       "company": "Analytical Engines",
                     *       "metadata": {
                     *         "orderId": 1042
                     *       },
                     *       "createdAt": "2026-11-21T06:12:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Lead"];
                };
            };
        };
    };
    listEvents: {
        parameters: {
            query?: {
                /** @description Maximum number of items to return, 1 to 100. */
                limit?: number;
                /**
                 * @description Start after this position: an event’s `cursor`, or an `eventCursor`.
                 * @example NWUwYzFhN2YuMTA0MQ
                 */
                after?: string;
                /**
                 * @description Only events of these types. Several are separated by commas, or the parameter is repeated.
                 * @example [
                 *       "conversation.started",
                 *       "message.received"
                 *     ]
                 */
                types?: ("conversation.started" | "message.received" | "conversation.closed" | "lead.captured" | "message.sent" | "conversation.reopened" | "conversation.updated" | "conversation.read" | "conversation.deleted")[];
                /**
                 * @description Only events of this conversation.
                 * @example conv_01m7z12aypfmvv4snqnjfg9r62
                 */
                conversationId?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of the event log. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "data": [
                     *         {
                     *           "id": "evt_01m7z12aypfmvv4snqnjfg9r62",
                     *           "type": "conversation.started",
                     *           "timestamp": "2026-11-21T06:12:00.000Z",
                     *           "sequence": 1,
                     *           "cursor": "NWUwYzFhN2YuMTA0MQ",
                     *           "apiVersion": "v1",
                     *           "accountId": "acct_01m7z12aypfmvv4snqnjfg9r62",
                     *           "data": {
                     *             "conversation": {
                     *               "id": "conv_01m7z12aypfmvv4snqnjfg9r62",
                     *               "status": "active",
                     *               "subject": "Parcel 1042",
                     *               "visitor": {
                     *                 "id": "customer-7",
                     *                 "name": "Ada",
                     *                 "email": "ada@example.com"
                     *               },
                     *               "externalId": "ticket-1042",
                     *               "assignee": {
                     *                 "id": "agent-3",
                     *                 "name": "Grace"
                     *               },
                     *               "tags": [
                     *                 "delivery",
                     *                 "urgent"
                     *               ],
                     *               "metadata": {
                     *                 "orderId": 1042
                     *               },
                     *               "messageCount": 1,
                     *               "lastMessage": {
                     *                 "id": "msg_01m7z12aypfmvv4snqnjfg9r62",
                     *                 "sequence": 1,
                     *                 "sender": "agent",
                     *                 "author": {
                     *                   "id": "agent-3",
                     *                   "name": "Grace"
                     *                 },
                     *                 "createdAt": "2026-11-21T06:12:00.000Z",
                     *                 "preview": "It will be with you tomorrow."
                     *               },
                     *               "lastActivityAt": "2026-11-21T06:12:00.000Z",
                     *               "firstResponseAt": null,
                     *               "closedAt": null,
                     *               "version": 1,
                     *               "createdAt": "2026-11-21T06:12:00.000Z",
                     *               "updatedAt": "2026-11-21T06:12:00.000Z"
                     *             }
                     *           }
                     *         }
                     *       ],
                     *       "pagination": {
                     *         "limit": 20,
                     *         "hasMore": false,
                     *         "nextCursor": "NWUwYzFhN2YuMTA0MQ"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["EventList"];
                };
            };
        };
    };
    streamEvents: {
        parameters: {
            query?: {
                /**
                 * @description Start after this position: an event’s `cursor`, or an `eventCursor`.
                 * @example NWUwYzFhN2YuMTA0MQ
                 */
                after?: string;
                /**
                 * @description Only events of these types. Several are separated by commas, or the parameter is repeated.
                 * @example [
                 *       "conversation.started",
                 *       "message.received"
                 *     ]
                 */
                types?: ("conversation.started" | "message.received" | "conversation.closed" | "lead.captured" | "message.sent" | "conversation.reopened" | "conversation.updated" | "conversation.read" | "conversation.deleted")[];
                /**
                 * @description Only events of this conversation.
                 * @example conv_01m7z12aypfmvv4snqnjfg9r62
                 */
                conversationId?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description An endless stream of Server-Sent Events: `id` is the cursor, `event` the type, `data` the event as JSON. At the start, and after every 15 s without an event, there is a block with only an `id` to resume from, which also advances past events that the filter excludes. The first block has `retry`, too. An entry of the event log, which tells of every change of a conversation. The events of one operation have the same snapshot. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example retry: 1000
                     *     id: NWUwYzFhN2YuMTA0MA
                     *
                     *     id: NWUwYzFhN2YuMTA0MQ
                     *     event: conversation.started
                     *     data: {"id":"evt_01m7z12aypfmvv4snqnjfg9r62","type":"conversation.started","timestamp":"2026-11-21T06:12:00.000Z","sequence":1,"cursor":"NWUwYzFhN2YuMTA0MQ","apiVersion":"v1","accountId":"acct_01m7z12aypfmvv4snqnjfg9r62","data":{"conversation":{"id":"conv_01m7z12aypfmvv4snqnjfg9r62","status":"active","subject":"Parcel 1042","visitor":{"id":"customer-7","name":"Ada","email":"ada@example.com"},"externalId":"ticket-1042","assignee":{"id":"agent-3","name":"Grace"},"tags":["delivery","urgent"],"metadata":{"orderId":1042},"messageCount":1,"lastMessage":{"id":"msg_01m7z12aypfmvv4snqnjfg9r62","sequence":1,"sender":"agent","author":{"id":"agent-3","name":"Grace"},"createdAt":"2026-11-21T06:12:00.000Z","preview":"It will be with you tomorrow."},"lastActivityAt":"2026-11-21T06:12:00.000Z","firstResponseAt":null,"closedAt":null,"version":1,"createdAt":"2026-11-21T06:12:00.000Z","updatedAt":"2026-11-21T06:12:00.000Z"}}}
                     */
                    "text/event-stream": string;
                };
            };
        };
    };
    listWebhooks: {
        parameters: {
            query?: {
                /** @description Maximum number of items to return, 1 to 100. */
                limit?: number;
                /**
                 * @description Number of items to skip. The cost grows with it; that of a cursor does not.
                 * @example 40
                 */
                offset?: number;
                /**
                 * @description Continue after this cursor: a `nextCursor` or an edge’s `cursor` from a list with the same sort.
                 * @example WyItY3JlYXRlZEF0Iiwid2hrXzAxbTd6MTJheXBmbXZ2NHNucW5qZmc5cjYyIl0
                 */
                after?: string;
                /** @description `none` leaves the total out, which a list with filters otherwise has to count. */
                total?: "none";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of a list of Webhook. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "data": [
                     *         {
                     *           "id": "whk_01m7z12aypfmvv4snqnjfg9r62",
                     *           "url": "https://example.com/hooks",
                     *           "events": [
                     *             "conversation.started"
                     *           ],
                     *           "description": "notifies the shop",
                     *           "enabled": true,
                     *           "disabledReason": null,
                     *           "createdAt": "2026-11-21T06:12:00.000Z",
                     *           "updatedAt": "2026-11-21T06:12:00.000Z"
                     *         }
                     *       ],
                     *       "pagination": {
                     *         "limit": 20,
                     *         "offset": 0,
                     *         "total": 1,
                     *         "hasMore": false,
                     *         "nextCursor": null
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["WebhookList"];
                };
            };
        };
    };
    createWebhook: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "url": "https://example.com/hooks"
                 *     }
                 */
                "application/json": components["schemas"]["CreateWebhookInput"];
            };
        };
        responses: {
            /** @description A webhook with its secret, which is shown only at creation and rotation. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "whk_01m7z12aypfmvv4snqnjfg9r62",
                     *       "url": "https://example.com/hooks",
                     *       "events": [
                     *         "conversation.started"
                     *       ],
                     *       "description": "notifies the shop",
                     *       "enabled": true,
                     *       "disabledReason": null,
                     *       "createdAt": "2026-11-21T06:12:00.000Z",
                     *       "updatedAt": "2026-11-21T06:12:00.000Z",
                     *       "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
                     *     }
                     */
                    "application/json": components["schemas"]["WebhookWithSecret"];
                };
            };
        };
    };
    getWebhook: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The webhook’s id.
                 * @example whk_01m7z12aypfmvv4snqnjfg9r62
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description An endpoint that events are sent to. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "whk_01m7z12aypfmvv4snqnjfg9r62",
                     *       "url": "https://example.com/hooks",
                     *       "events": [
                     *         "conversation.started"
                     *       ],
                     *       "description": "notifies the shop",
                     *       "enabled": true,
                     *       "disabledReason": null,
                     *       "createdAt": "2026-11-21T06:12:00.000Z",
                     *       "updatedAt": "2026-11-21T06:12:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Webhook"];
                };
            };
        };
    };
    deleteWebhook: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The webhook’s id.
                 * @example whk_01m7z12aypfmvv4snqnjfg9r62
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done, no content. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    updateWebhook: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The webhook’s id.
                 * @example whk_01m7z12aypfmvv4snqnjfg9r62
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "url": "https://example.com/hooks"
                 *     }
                 */
                "application/json": components["schemas"]["UpdateWebhookInput"];
            };
        };
        responses: {
            /** @description An endpoint that events are sent to. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "whk_01m7z12aypfmvv4snqnjfg9r62",
                     *       "url": "https://example.com/hooks",
                     *       "events": [
                     *         "conversation.started"
                     *       ],
                     *       "description": "notifies the shop",
                     *       "enabled": true,
                     *       "disabledReason": null,
                     *       "createdAt": "2026-11-21T06:12:00.000Z",
                     *       "updatedAt": "2026-11-21T06:12:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Webhook"];
                };
            };
        };
    };
    rotateWebhookSecret: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The webhook’s id.
                 * @example whk_01m7z12aypfmvv4snqnjfg9r62
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /** @example {} */
                "application/json": components["schemas"]["RotateWebhookSecretInput"];
            };
        };
        responses: {
            /** @description A webhook with its secret, which is shown only at creation and rotation. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "whk_01m7z12aypfmvv4snqnjfg9r62",
                     *       "url": "https://example.com/hooks",
                     *       "events": [
                     *         "conversation.started"
                     *       ],
                     *       "description": "notifies the shop",
                     *       "enabled": true,
                     *       "disabledReason": null,
                     *       "createdAt": "2026-11-21T06:12:00.000Z",
                     *       "updatedAt": "2026-11-21T06:12:00.000Z",
                     *       "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
                     *     }
                     */
                    "application/json": components["schemas"]["WebhookWithSecret"];
                };
            };
        };
    };
    testWebhook: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The webhook’s id.
                 * @example whk_01m7z12aypfmvv4snqnjfg9r62
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /** @example {} */
                "application/json": components["schemas"]["TestWebhookInput"];
            };
        };
        responses: {
            /** @description The delivery of one event to one webhook, with all its attempts. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "dlv_01m7z12aypfmvv4snqnjfg9r62",
                     *       "webhookId": "whk_01m7z12aypfmvv4snqnjfg9r62",
                     *       "eventId": "evt_01m7z12aypfmvv4snqnjfg9r62",
                     *       "eventType": "conversation.started",
                     *       "test": false,
                     *       "status": "pending",
                     *       "attemptCount": 1,
                     *       "nextAttemptAt": "2026-11-21T06:12:00.000Z",
                     *       "createdAt": "2026-11-21T06:12:00.000Z",
                     *       "completedAt": null,
                     *       "attempts": [
                     *         {
                     *           "id": "att_01m7z12aypfmvv4snqnjfg9r62",
                     *           "startedAt": "2026-11-21T06:12:00.000Z",
                     *           "durationMs": 84,
                     *           "trigger": "schedule",
                     *           "responseStatus": 503,
                     *           "responseBody": "try again later",
                     *           "error": null
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["DeliveryWithAttempts"];
                };
            };
        };
    };
    recoverWebhook: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The webhook’s id.
                 * @example whk_01m7z12aypfmvv4snqnjfg9r62
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "since": "2026-11-21T06:12:00.000Z"
                 *     }
                 */
                "application/json": components["schemas"]["RecoverWebhookInput"];
            };
        };
        responses: {
            /** @description The result of recoverWebhook. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "count": 3
                     *     }
                     */
                    "application/json": components["schemas"]["Recovery"];
                };
            };
        };
    };
    listDeliveries: {
        parameters: {
            query?: {
                /** @description Maximum number of items to return, 1 to 100. */
                limit?: number;
                /**
                 * @description Number of items to skip. The cost grows with it; that of a cursor does not.
                 * @example 40
                 */
                offset?: number;
                /**
                 * @description Continue after this cursor: a `nextCursor` or an edge’s `cursor` from a list with the same sort.
                 * @example WyItY3JlYXRlZEF0IiwiZGx2XzAxbTd6MTJheXBmbXZ2NHNucW5qZmc5cjYyIl0
                 */
                after?: string;
                /** @description `none` leaves the total out, which a list with filters otherwise has to count. */
                total?: "none";
            };
            header?: never;
            path: {
                /**
                 * @description The webhook’s id.
                 * @example whk_01m7z12aypfmvv4snqnjfg9r62
                 */
                webhookId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of a list of Delivery. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "data": [
                     *         {
                     *           "id": "dlv_01m7z12aypfmvv4snqnjfg9r62",
                     *           "webhookId": "whk_01m7z12aypfmvv4snqnjfg9r62",
                     *           "eventId": "evt_01m7z12aypfmvv4snqnjfg9r62",
                     *           "eventType": "conversation.started",
                     *           "test": false,
                     *           "status": "pending",
                     *           "attemptCount": 1,
                     *           "nextAttemptAt": "2026-11-21T06:12:00.000Z",
                     *           "createdAt": "2026-11-21T06:12:00.000Z",
                     *           "completedAt": null
                     *         }
                     *       ],
                     *       "pagination": {
                     *         "limit": 20,
                     *         "offset": 0,
                     *         "total": 1,
                     *         "hasMore": false,
                     *         "nextCursor": null
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["DeliveryList"];
                };
            };
        };
    };
    getDelivery: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The delivery’s id.
                 * @example dlv_01m7z12aypfmvv4snqnjfg9r62
                 */
                id: string;
                /**
                 * @description The webhook’s id.
                 * @example whk_01m7z12aypfmvv4snqnjfg9r62
                 */
                webhookId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The delivery of one event to one webhook, with all its attempts. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "dlv_01m7z12aypfmvv4snqnjfg9r62",
                     *       "webhookId": "whk_01m7z12aypfmvv4snqnjfg9r62",
                     *       "eventId": "evt_01m7z12aypfmvv4snqnjfg9r62",
                     *       "eventType": "conversation.started",
                     *       "test": false,
                     *       "status": "pending",
                     *       "attemptCount": 1,
                     *       "nextAttemptAt": "2026-11-21T06:12:00.000Z",
                     *       "createdAt": "2026-11-21T06:12:00.000Z",
                     *       "completedAt": null,
                     *       "attempts": [
                     *         {
                     *           "id": "att_01m7z12aypfmvv4snqnjfg9r62",
                     *           "startedAt": "2026-11-21T06:12:00.000Z",
                     *           "durationMs": 84,
                     *           "trigger": "schedule",
                     *           "responseStatus": 503,
                     *           "responseBody": "try again later",
                     *           "error": null
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["DeliveryWithAttempts"];
                };
            };
        };
    };
    redeliver: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The delivery’s id.
                 * @example dlv_01m7z12aypfmvv4snqnjfg9r62
                 */
                id: string;
                /**
                 * @description The webhook’s id.
                 * @example whk_01m7z12aypfmvv4snqnjfg9r62
                 */
                webhookId: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /** @example {} */
                "application/json": components["schemas"]["RedeliverInput"];
            };
        };
        responses: {
            /** @description The delivery of one event to one webhook, with all its attempts. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "dlv_01m7z12aypfmvv4snqnjfg9r62",
                     *       "webhookId": "whk_01m7z12aypfmvv4snqnjfg9r62",
                     *       "eventId": "evt_01m7z12aypfmvv4snqnjfg9r62",
                     *       "eventType": "conversation.started",
                     *       "test": false,
                     *       "status": "pending",
                     *       "attemptCount": 1,
                     *       "nextAttemptAt": "2026-11-21T06:12:00.000Z",
                     *       "createdAt": "2026-11-21T06:12:00.000Z",
                     *       "completedAt": null,
                     *       "attempts": [
                     *         {
                     *           "id": "att_01m7z12aypfmvv4snqnjfg9r62",
                     *           "startedAt": "2026-11-21T06:12:00.000Z",
                     *           "durationMs": 84,
                     *           "trigger": "schedule",
                     *           "responseStatus": 503,
                     *           "responseBody": "try again later",
                     *           "error": null
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["DeliveryWithAttempts"];
                };
            };
        };
    };
    getAnalytics: {
        parameters: {
            query?: {
                /**
                 * @description Start of the period, on a quarter hour; by default 30 days before `to`, by the calendar of `timezone`.
                 * @example 2026-11-21T06:12:00.000Z
                 */
                from?: string;
                /**
                 * @description End of the period, exclusive, on a quarter hour; by default the next one.
                 * @example 2026-11-21T06:12:00.000Z
                 */
                to?: string;
                /** @description Length of one point of the series: `hour`, `day`, `week` (from Monday) or `month`; by default `day`. */
                interval?: "hour" | "day" | "week" | "month";
                /** @description The IANA time zone whose calendar the points follow; by default UTC. */
                timezone?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A report on the activity in a period. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "period": {
                     *         "from": "2026-11-21T06:12:00.000Z",
                     *         "to": "2026-11-21T06:12:00.000Z",
                     *         "interval": "hour",
                     *         "timezone": "Europe/Berlin"
                     *       },
                     *       "openNow": {
                     *         "active": 1,
                     *         "pending": 0
                     *       },
                     *       "totals": {
                     *         "from": "2026-11-21T06:12:00.000Z",
                     *         "to": "2026-11-21T06:12:00.000Z",
                     *         "conversationsStarted": 4,
                     *         "conversationsClosed": 3,
                     *         "conversationsReopened": 1,
                     *         "messages": {
                     *           "agent": 12,
                     *           "visitor": 14,
                     *           "bot": 0
                     *         },
                     *         "leads": 1,
                     *         "conversionRate": 0.25,
                     *         "firstResponseSeconds": {
                     *           "count": 3,
                     *           "mean": 140.5,
                     *           "median": 121,
                     *           "p90": 236
                     *         },
                     *         "resolutionSeconds": {
                     *           "count": 3,
                     *           "mean": 140.5,
                     *           "median": 121,
                     *           "p90": 236
                     *         }
                     *       },
                     *       "previous": {
                     *         "from": "2026-11-21T06:12:00.000Z",
                     *         "to": "2026-11-21T06:12:00.000Z",
                     *         "conversationsStarted": 4,
                     *         "conversationsClosed": 3,
                     *         "conversationsReopened": 1,
                     *         "messages": {
                     *           "agent": 12,
                     *           "visitor": 14,
                     *           "bot": 0
                     *         },
                     *         "leads": 1,
                     *         "conversionRate": 0.25,
                     *         "firstResponseSeconds": {
                     *           "count": 3,
                     *           "mean": 140.5,
                     *           "median": 121,
                     *           "p90": 236
                     *         },
                     *         "resolutionSeconds": {
                     *           "count": 3,
                     *           "mean": 140.5,
                     *           "median": 121,
                     *           "p90": 236
                     *         }
                     *       },
                     *       "series": [
                     *         {
                     *           "from": "2026-11-21T06:12:00.000Z",
                     *           "to": "2026-11-21T06:12:00.000Z",
                     *           "conversationsStarted": 4,
                     *           "conversationsClosed": 3,
                     *           "conversationsReopened": 1,
                     *           "messages": {
                     *             "agent": 12,
                     *             "visitor": 14,
                     *             "bot": 0
                     *           },
                     *           "leads": 1,
                     *           "conversionRate": 0.25,
                     *           "firstResponseSeconds": {
                     *             "count": 3,
                     *             "mean": 140.5,
                     *             "median": 121,
                     *             "p90": 236
                     *           },
                     *           "resolutionSeconds": {
                     *             "count": 3,
                     *             "mean": 140.5,
                     *             "median": 121,
                     *             "p90": 236
                     *           }
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Analytics"];
                };
            };
        };
    };
    getAccount: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The account that the credential belongs to. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "acct_01m7z12aypfmvv4snqnjfg9r62",
                     *       "name": "Acme Support",
                     *       "plan": "trial",
                     *       "rateLimit": {
                     *         "limit": 1000,
                     *         "remaining": 998,
                     *         "resetAt": "2026-11-21T06:12:00.000Z"
                     *       },
                     *       "eventCursor": "NWUwYzFhN2YuMTA0MQ",
                     *       "createdAt": "2026-11-21T06:12:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Account"];
                };
            };
        };
    };
    listApiKeys: {
        parameters: {
            query?: {
                /** @description Maximum number of items to return, 1 to 100. */
                limit?: number;
                /**
                 * @description Number of items to skip. The cost grows with it; that of a cursor does not.
                 * @example 40
                 */
                offset?: number;
                /**
                 * @description Continue after this cursor: a `nextCursor` or an edge’s `cursor` from a list with the same sort.
                 * @example WyItY3JlYXRlZEF0Iiwia2V5XzAxbTd6MTJheXBmbXZ2NHNucW5qZmc5cjYyIl0
                 */
                after?: string;
                /** @description `none` leaves the total out, which a list with filters otherwise has to count. */
                total?: "none";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of a list of ApiKey. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "data": [
                     *         {
                     *           "id": "key_01m7z12aypfmvv4snqnjfg9r62",
                     *           "name": "dashboard",
                     *           "prefix": "cs_9fQ2x",
                     *           "scopes": [
                     *             "conversations:read"
                     *           ],
                     *           "expiresAt": null,
                     *           "lastUsedAt": null,
                     *           "createdAt": "2026-11-21T06:12:00.000Z",
                     *           "revokedAt": null
                     *         }
                     *       ],
                     *       "pagination": {
                     *         "limit": 20,
                     *         "offset": 0,
                     *         "total": 1,
                     *         "hasMore": false,
                     *         "nextCursor": null
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["ApiKeyList"];
                };
            };
        };
    };
    createApiKey: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "name": "dashboard"
                 *     }
                 */
                "application/json": components["schemas"]["CreateApiKeyInput"];
            };
        };
        responses: {
            /** @description A new key with its secret, which is shown only once. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "key_01m7z12aypfmvv4snqnjfg9r62",
                     *       "name": "dashboard",
                     *       "prefix": "cs_9fQ2x",
                     *       "scopes": [
                     *         "conversations:read"
                     *       ],
                     *       "expiresAt": null,
                     *       "lastUsedAt": null,
                     *       "createdAt": "2026-11-21T06:12:00.000Z",
                     *       "revokedAt": null,
                     *       "secret": "cs_9fQ2xWm4Jq0sN8bYvT6cRzLkHgDpAeUoIiXyE3w5F71"
                     *     }
                     */
                    "application/json": components["schemas"]["NewApiKey"];
                };
            };
        };
    };
    revokeApiKey: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The key’s id.
                 * @example key_01m7z12aypfmvv4snqnjfg9r62
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done, no content. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    createToken: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "scopes": [
                 *         "conversations:read",
                 *         "conversations:write"
                 *       ],
                 *       "visitor": {
                 *         "id": "customer-7",
                 *         "name": "Ada"
                 *       },
                 *       "requestsPerHour": 60
                 *     }
                 */
                "application/json": components["schemas"]["CreateTokenInput"];
            };
        };
        responses: {
            /** @description A new token. It is not stored and cannot be shown again. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhY2N0In0.c2lnbmF0dXJl",
                     *       "expiresAt": "2026-11-21T06:12:00.000Z",
                     *       "scopes": [
                     *         "conversations:read"
                     *       ],
                     *       "conversationId": "conv_01m7z12aypfmvv4snqnjfg9r62",
                     *       "visitor": {
                     *         "id": "customer-7",
                     *         "name": "Ada",
                     *         "email": "ada@example.com"
                     *       },
                     *       "sender": "agent",
                     *       "requestsPerHour": 60,
                     *       "trustedDocumentsOnly": false
                     *     }
                     */
                    "application/json": components["schemas"]["NewToken"];
                };
            };
        };
    };
    listDocuments: {
        parameters: {
            query?: {
                /** @description Maximum number of items to return, 1 to 100. */
                limit?: number;
                /**
                 * @description Number of items to skip. The cost grows with it; that of a cursor does not.
                 * @example 40
                 */
                offset?: number;
                /**
                 * @description Continue after this cursor: a `nextCursor` or an edge’s `cursor` from a list with the same sort.
                 * @example WyItY3JlYXRlZEF0IiwxXQ
                 */
                after?: string;
                /** @description `none` leaves the total out, which a list with filters otherwise has to count. */
                total?: "none";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of a list of TrustedDocument. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "data": [
                     *         {
                     *           "id": "sha256:7f83b1657ff1fc53b92dc18148a1d65dfc2d4b1fa3d677284addd200126d9069",
                     *           "text": "query Account { account { name } }",
                     *           "createdAt": "2026-11-21T06:12:00.000Z"
                     *         }
                     *       ],
                     *       "pagination": {
                     *         "limit": 20,
                     *         "offset": 0,
                     *         "total": 1,
                     *         "hasMore": false,
                     *         "nextCursor": null
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["TrustedDocumentList"];
                };
            };
        };
    };
    registerDocuments: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "documents": [
                 *         {
                 *           "id": "sha256:7f83b1657ff1fc53b92dc18148a1d65dfc2d4b1fa3d677284addd200126d9069",
                 *           "text": "query Account { account { name } }"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["RegisterDocumentsInput"];
            };
        };
        responses: {
            /** @description Documents that are registered now. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "documents": [
                     *         {
                     *           "id": "sha256:7f83b1657ff1fc53b92dc18148a1d65dfc2d4b1fa3d677284addd200126d9069",
                     *           "text": "query Account { account { name } }",
                     *           "createdAt": "2026-11-21T06:12:00.000Z"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["RegisteredDocuments"];
                };
            };
        };
    };
    deleteDocument: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The document’s id.
                 * @example sha256:7f83b1657ff1fc53b92dc18148a1d65dfc2d4b1fa3d677284addd200126d9069
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done, no content. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
}
