CREATE TABLE `erasing` (
	`account_id` text NOT NULL,
	`conversation_id` text NOT NULL,
	`conversation_key` integer NOT NULL,
	`event_sequence` integer NOT NULL,
	PRIMARY KEY(`account_id`, `conversation_id`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
-- Written by hand: drizzle would make the table anew, which its messages do not let it.
ALTER TABLE `conversations` ALTER COLUMN `account_id` DROP NOT NULL;
