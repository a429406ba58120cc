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
	`lease` text,
	`created_at` integer NOT NULL,
	`completed_at` integer,
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
CREATE INDEX `webhooks_removed` ON `webhooks` (`key`) WHERE "webhooks"."removed" = 1;