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
	`revoked_at` integer,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `api_keys_by_secret` ON `api_keys` (`secret_hash`);--> statement-breakpoint
CREATE UNIQUE INDEX `api_keys_by_account` ON `api_keys` (`account_id`,`id`);--> statement-breakpoint
CREATE TABLE `conversations` (
	`key` integer PRIMARY KEY NOT NULL,
	`id` text NOT NULL,
	`account_id` text NOT NULL,
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
	`updated_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `conversations_by_id` ON `conversations` (`account_id`,`id`);--> statement-breakpoint
CREATE INDEX `conversations_by_status` ON `conversations` (`account_id`,`status`,`id`);--> statement-breakpoint
CREATE INDEX `conversations_by_activity` ON `conversations` (`account_id`,`last_activity_at`,`id`);--> statement-breakpoint
CREATE INDEX `conversations_by_status_and_activity` ON `conversations` (`account_id`,`status`,`last_activity_at`,`id`);--> statement-breakpoint
CREATE UNIQUE INDEX `conversations_by_external_id` ON `conversations` (`account_id`,`external_id`) WHERE "conversations"."external_id" is not null;--> statement-breakpoint
CREATE TABLE `events` (
	`account_id` text NOT NULL,
	`sequence` integer NOT NULL,
	`id` text NOT NULL,
	`type` text NOT NULL,
	`conversation_id` text,
	`timestamp` integer NOT NULL,
	`data` text NOT NULL,
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
	`created_at` integer NOT NULL,
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
	`created_at` integer NOT NULL,
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
CREATE TABLE `rate_windows` (
	`account_id` text NOT NULL,
	`minute` integer NOT NULL,
	`count` integer NOT NULL,
	PRIMARY KEY(`account_id`, `minute`)
) WITHOUT ROWID;
--> statement-breakpoint
INSERT INTO `meta` (`name`, `value`) VALUES ('epoch', lower(hex(randomblob(8))));
--> statement-breakpoint
INSERT INTO `meta` (`name`, `value`) VALUES ('revocations', '0');
