-- What release 1.0.0 left: its tables, column by column in its order, as the migrations of before made them. So a file that it
-- made needs only what comes after, and is then the same as a new one. drizzle has no WITHOUT ROWID, virtual tables or rows.
CREATE TABLE `account_totals` (
	`account_id` text PRIMARY KEY NOT NULL,
	`active` integer DEFAULT 0 NOT NULL,
	`pending` integer DEFAULT 0 NOT NULL,
	`closed` integer DEFAULT 0 NOT NULL,
	`leads` integer DEFAULT 0 NOT NULL,
	`event_sequence` integer DEFAULT 0 NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE TABLE `accounts` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`plan` text NOT NULL,
	`requests_per_hour` integer,
	`created_at` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `api_keys` (
	`id` text PRIMARY KEY NOT NULL,
	`account_id` text NOT NULL,
	`name` text NOT NULL,
	`prefix` text NOT NULL,
	`secret_hash` blob NOT NULL,
	`scopes` text NOT NULL,
	`expires_at` integer,
	`last_used_at` integer,
	`created_at` integer NOT NULL,
	`revoked_at` integer, `ends_at` integer GENERATED ALWAYS AS (min(ifnull(expires_at, revoked_at), ifnull(revoked_at, expires_at))) VIRTUAL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `api_keys_by_secret` ON `api_keys` (`secret_hash`);--> statement-breakpoint
CREATE UNIQUE INDEX `api_keys_by_account` ON `api_keys` (`account_id`,`id`);--> statement-breakpoint
CREATE TABLE `conversations` (
	`key` integer PRIMARY KEY NOT NULL,
	`id` text NOT NULL,
	`account_id` text,
	`status` text NOT NULL,
	`subject` text,
	`visitor` text,
	`external_id` text,
	`metadata` text NOT NULL,
	`message_count` integer NOT NULL,
	`content_bytes` integer NOT NULL,
	`last_activity_at` integer NOT NULL,
	`first_visitor_message_at` integer,
	`first_response_at` integer,
	`closed_at` integer,
	`version` integer NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL, `reopened_at` integer, `converted` integer DEFAULT false NOT NULL, `assignee` text, `tags` text DEFAULT '[]' NOT NULL, `visitor_id` text GENERATED ALWAYS AS (visitor ->> 'id') VIRTUAL, `visitor_email` text GENERATED ALWAYS AS (lower(visitor ->> 'email')) VIRTUAL, `assignee_id` text GENERATED ALWAYS AS (assignee ->> 'id') VIRTUAL, `last_message` text,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `conversations_by_id` ON `conversations` (`account_id`,`id`);--> statement-breakpoint
CREATE INDEX `conversations_by_status` ON `conversations` (`account_id`,`status`,`id`);--> statement-breakpoint
CREATE INDEX `conversations_by_status_and_activity` ON `conversations` (`account_id`,`status`,`last_activity_at`,`id`);--> statement-breakpoint
CREATE UNIQUE INDEX `conversations_by_external_id` ON `conversations` (`account_id`,`external_id`) WHERE "conversations"."external_id" is not null;--> statement-breakpoint
CREATE TABLE `events` (
	`account_id` text NOT NULL,
	`sequence` integer NOT NULL,
	`id` text NOT NULL,
	`type` text NOT NULL,
	`conversation_id` text,
	`timestamp` integer NOT NULL,
	`data` text NOT NULL, `data_version` integer DEFAULT 1 NOT NULL, `visitor_hash` text,
	PRIMARY KEY(`account_id`, `sequence`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `events_by_conversation` ON `events` (`account_id`,`conversation_id`,`sequence`);--> statement-breakpoint
CREATE INDEX `events_by_time` ON `events` (`timestamp`);--> statement-breakpoint
CREATE TABLE `leads` (
	`id` text NOT NULL,
	`account_id` text NOT NULL,
	`conversation_id` text,
	`name` text,
	`email` text,
	`phone` text,
	`company` text,
	`metadata` text NOT NULL,
	`created_at` integer NOT NULL, `comparable_email` text GENERATED ALWAYS AS (lower(email)) VIRTUAL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `leads_by_id` ON `leads` (`account_id`,`id`);--> statement-breakpoint
CREATE TABLE `messages` (
	`conversation_key` integer NOT NULL,
	`sequence` integer NOT NULL,
	`id` text NOT NULL,
	`sender` text NOT NULL,
	`content` text NOT NULL,
	`author` text,
	`metadata` text NOT NULL,
	`created_at` integer NOT NULL, `client_id` text,
	PRIMARY KEY(`conversation_key`, `sequence`),
	FOREIGN KEY (`conversation_key`) REFERENCES `conversations`(`key`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE UNIQUE INDEX `messages_by_id` ON `messages` (`id`);--> statement-breakpoint
CREATE TABLE `meta` (
	`name` text PRIMARY KEY NOT NULL,
	`value` text NOT NULL
);
--> statement-breakpoint
INSERT INTO `meta` (`name`, `value`) VALUES
	('epoch', lower(hex(randomblob(8)))),
	('revocations', '0'),
	('token_key', lower(hex(randomblob(32)))),
	('erasures', '0');
--> statement-breakpoint
CREATE TABLE `rate_windows` (
	`account_id` text NOT NULL,
	`minute` integer NOT NULL,
	`count` integer NOT NULL, `added` integer DEFAULT 0 NOT NULL,
	PRIMARY KEY(`account_id`, `minute`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `attempts` (
	`delivery_key` integer NOT NULL,
	`number` integer NOT NULL,
	`id` text NOT NULL,
	`started_at` integer NOT NULL,
	`duration_ms` integer NOT NULL,
	`trigger` text NOT NULL,
	`response_status` integer,
	`response_body` text,
	`error` text,
	PRIMARY KEY(`delivery_key`, `number`),
	FOREIGN KEY (`delivery_key`) REFERENCES `deliveries`(`key`) ON UPDATE no action ON DELETE cascade
);
--> statement-breakpoint
CREATE TABLE `deliveries` (
	`key` integer PRIMARY KEY NOT NULL,
	`id` text NOT NULL,
	`webhook_key` integer NOT NULL,
	`event_id` text NOT NULL,
	`event_type` text NOT NULL,
	`event_sequence` integer,
	`sample` text,
	`status` text NOT NULL,
	`attempt_count` integer NOT NULL,
	`step` integer NOT NULL,
	`trigger` text NOT NULL,
	`due_at` integer,
	`created_at` integer NOT NULL,
	`completed_at` integer, `traceparent` text,
	FOREIGN KEY (`webhook_key`) REFERENCES `webhooks`(`key`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `deliveries_by_id` ON `deliveries` (`id`);--> statement-breakpoint
CREATE INDEX `deliveries_by_webhook` ON `deliveries` (`webhook_key`,`id`);--> statement-breakpoint
CREATE INDEX `deliveries_due` ON `deliveries` (`webhook_key`,`due_at`) WHERE "deliveries"."status" = 'pending';--> statement-breakpoint
CREATE INDEX `deliveries_failed` ON `deliveries` (`webhook_key`,`id`) WHERE "deliveries"."status" = 'failed';--> statement-breakpoint
CREATE TABLE `webhooks` (
	`key` integer PRIMARY KEY NOT NULL,
	`id` text NOT NULL,
	`account_id` text NOT NULL,
	`url` text NOT NULL,
	`events` text NOT NULL,
	`description` text,
	`enabled` integer NOT NULL,
	`disabled_reason` text,
	`secrets` text NOT NULL,
	`failing_since` integer,
	`removed` integer DEFAULT false NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `webhooks_by_id` ON `webhooks` (`id`);--> statement-breakpoint
CREATE UNIQUE INDEX `webhooks_by_account` ON `webhooks` (`account_id`,`id`) WHERE "webhooks"."removed" = 0;--> statement-breakpoint
CREATE INDEX `webhooks_enabled` ON `webhooks` (`key`) WHERE "webhooks"."enabled" = 1 AND "webhooks"."removed" = 0;--> statement-breakpoint
CREATE INDEX `webhooks_removed` ON `webhooks` (`key`) WHERE "webhooks"."removed" = 1;--> statement-breakpoint
CREATE TABLE `kept_results` (
	`account_id` text NOT NULL,
	`idempotency_key` text NOT NULL,
	`fingerprint` blob NOT NULL,
	`result` text,
	`conversation_id` text,
	`created_at` integer NOT NULL,
	PRIMARY KEY(`account_id`, `idempotency_key`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `kept_results_by_conversation` ON `kept_results` (`account_id`,`conversation_id`) WHERE "kept_results"."conversation_id" is not null;--> statement-breakpoint
CREATE INDEX `kept_results_by_time` ON `kept_results` (`created_at`);--> statement-breakpoint
CREATE TABLE `analytics_counters` (
	`account_id` text NOT NULL,
	`quarter` integer NOT NULL,
	`conversations_started` integer NOT NULL,
	`conversations_closed` integer NOT NULL,
	`conversations_reopened` integer NOT NULL,
	`conversations_converted` integer NOT NULL,
	`agent_messages` integer NOT NULL,
	`visitor_messages` integer NOT NULL,
	`bot_messages` integer NOT NULL,
	`leads` integer NOT NULL,
	`first_responses` integer NOT NULL,
	`first_response_ms` integer NOT NULL,
	`resolutions` integer NOT NULL,
	`resolution_ms` integer NOT NULL,
	PRIMARY KEY(`account_id`, `quarter`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `analytics_histograms` (
	`account_id` text NOT NULL,
	`name` text NOT NULL,
	`width` integer NOT NULL,
	`quarter` integer NOT NULL,
	`counts` blob NOT NULL,
	PRIMARY KEY(`account_id`, `name`, `width`, `quarter`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `erasing` (
	`account_id` text NOT NULL,
	`conversation_id` text NOT NULL,
	`conversation_key` integer NOT NULL,
	`event_sequence` integer NOT NULL,
	PRIMARY KEY(`account_id`, `conversation_id`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE TABLE `delivery_leases` (
	`delivery_key` integer PRIMARY KEY NOT NULL,
	`lease` text NOT NULL,
	`ends_at` integer NOT NULL,
	FOREIGN KEY (`delivery_key`) REFERENCES `deliveries`(`key`) ON UPDATE no action ON DELETE cascade
);
--> statement-breakpoint
CREATE TABLE `rate_clock` (
	`key` integer PRIMARY KEY NOT NULL,
	`at` integer NOT NULL,
	`wall` integer NOT NULL,
	`uptime` integer NOT NULL,
	`boot` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `api_keys_by_account_and_end` ON `api_keys` (`account_id`,`ends_at`);--> statement-breakpoint
CREATE INDEX `api_keys_by_expiry` ON `api_keys` (`expires_at`) WHERE revoked_at IS NULL;--> statement-breakpoint
CREATE TABLE `search_accounts` (
	`key` integer PRIMARY KEY NOT NULL,
	`account_id` text NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `search_accounts_by_id` ON `search_accounts` (`account_id`);--> statement-breakpoint
CREATE TABLE `search_partitions` (
	`account_key` integer NOT NULL,
	`partition` integer NOT NULL,
	`created_from` integer NOT NULL,
	`created_to` integer NOT NULL,
	PRIMARY KEY(`account_key`, `partition`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `search_texts` (
	`account_key` integer NOT NULL,
	`number` integer NOT NULL,
	`conversation_key` integer NOT NULL,
	`sequence` integer NOT NULL,
	`created_at` integer NOT NULL,
	`indexed_terms` integer,
	PRIMARY KEY(`account_key`, `number`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE UNIQUE INDEX `search_texts_by_place` ON `search_texts` (`conversation_key`,`sequence`);--> statement-breakpoint
CREATE INDEX `search_texts_waiting` ON `search_texts` (`account_key`,`number`) WHERE "search_texts"."indexed_terms" is null;--> statement-breakpoint
-- The words of the texts, without the texts. It is merged in steps by the program, and what is deleted from it is overwritten.
CREATE VIRTUAL TABLE `search_words` USING fts5(words, content='', tokenize='ascii', detail=none, columnsize=0);
--> statement-breakpoint
INSERT INTO `search_words` (`search_words`, `rank`) VALUES ('secure-delete', 1), ('automerge', 0), ('usermerge', 8), ('crisismerge', 1999);
--> statement-breakpoint
CREATE VIRTUAL TABLE `search_vocabulary` USING fts5vocab(search_words, row);
--> statement-breakpoint
CREATE INDEX `leads_by_email` ON `leads` (`account_id`,`comparable_email`,`id`) WHERE "leads"."comparable_email" is not null;--> statement-breakpoint
CREATE INDEX `leads_by_conversation` ON `leads` (`account_id`,`conversation_id`,`id`) WHERE "leads"."conversation_id" is not null;--> statement-breakpoint
CREATE INDEX `conversations_by_visitor` ON `conversations` (`account_id`,`visitor_id`,`id`) WHERE "conversations"."visitor_id" is not null;--> statement-breakpoint
CREATE INDEX `conversations_by_visitor_email` ON `conversations` (`account_id`,`visitor_email`,`id`) WHERE "conversations"."visitor_email" is not null;--> statement-breakpoint
CREATE INDEX `conversations_by_assignee_and_activity` ON `conversations` (`account_id`,`assignee_id`,`status`,`last_activity_at`,`id`) WHERE "conversations"."assignee_id" is not null;--> statement-breakpoint
CREATE INDEX `conversations_by_update` ON `conversations` (`account_id`,`updated_at`,`last_activity_at`) WHERE "conversations"."updated_at" > "conversations"."last_activity_at";--> statement-breakpoint
CREATE INDEX `conversations_by_assignee` ON `conversations` (`account_id`,`assignee_id`,`status`,`id`);--> statement-breakpoint
CREATE TABLE `conversation_tags` (
	`account_id` text NOT NULL,
	`tag` text NOT NULL,
	`conversation_id` text NOT NULL,
	PRIMARY KEY(`account_id`, `tag`, `conversation_id`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `read_positions` (
	`conversation_key` integer NOT NULL,
	`reader` text NOT NULL,
	`sequence` integer NOT NULL,
	`read_at` integer NOT NULL,
	`move` integer NOT NULL,
	PRIMARY KEY(`conversation_key`, `reader`),
	FOREIGN KEY (`conversation_key`) REFERENCES `conversations`(`key`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `unread_conversations` (
	`account_id` text NOT NULL,
	`reader` text NOT NULL,
	`conversation_id` text NOT NULL,
	`last_activity_at` integer NOT NULL,
	PRIMARY KEY(`account_id`, `reader`, `conversation_id`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `unread_conversations_by_activity` ON `unread_conversations` (`account_id`,`reader`,`last_activity_at`,`conversation_id`);--> statement-breakpoint
CREATE INDEX `events_by_visitor` ON `events` (`account_id`,`visitor_hash`,`sequence`) WHERE "events"."visitor_hash" is not null;--> statement-breakpoint
CREATE TABLE `account_origins` (
	`account_id` text NOT NULL,
	`origin` text NOT NULL,
	PRIMARY KEY(`account_id`, `origin`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `account_origins_by_origin` ON `account_origins` (`origin`);--> statement-breakpoint
CREATE TABLE `trusted_documents` (
	`account_id` text NOT NULL,
	`number` integer NOT NULL,
	`id` text NOT NULL,
	`text` text NOT NULL,
	`bytes` integer NOT NULL,
	`created_at` integer NOT NULL,
	PRIMARY KEY(`account_id`, `number`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `trusted_documents_by_id` ON `trusted_documents` (`account_id`,`id`);--> statement-breakpoint
CREATE INDEX `trusted_documents_by_size` ON `trusted_documents` (`account_id`,`bytes`);
