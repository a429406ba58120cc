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