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
CREATE INDEX `leads_by_conversation` ON `leads` (`account_id`,`conversation_id`) WHERE "leads"."conversation_id" is not null;--> statement-breakpoint
-- Written by hand: grows with every erasure.
INSERT INTO `meta` (`name`, `value`) VALUES ('erasures', '0');
