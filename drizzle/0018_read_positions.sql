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
CREATE INDEX `unread_conversations_by_activity` ON `unread_conversations` (`account_id`,`reader`,`last_activity_at`,`conversation_id`);