-- In a table WITHOUT ROWID a row of more than 1,002 bytes takes a page of its own beside: an event took 4 KiB in place of 1.
CREATE TABLE `__new_events` (
	`account_id` text NOT NULL,
	`sequence` integer NOT NULL,
	`id` text NOT NULL,
	`type` text NOT NULL,
	`conversation_id` text,
	`visitor_hash` text,
	`timestamp` integer NOT NULL,
	`data` text NOT NULL,
	`data_version` integer DEFAULT 1 NOT NULL,
	PRIMARY KEY(`account_id`, `sequence`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
INSERT INTO `__new_events`
	SELECT `account_id`, `sequence`, `id`, `type`, `conversation_id`, `visitor_hash`, `timestamp`, `data`, `data_version` FROM `events`;
--> statement-breakpoint
DROP TABLE `events`;
--> statement-breakpoint
ALTER TABLE `__new_events` RENAME TO `events`;
--> statement-breakpoint
CREATE INDEX `events_by_conversation` ON `events` (`account_id`,`conversation_id`,`sequence`);
--> statement-breakpoint
CREATE INDEX `events_by_visitor` ON `events` (`account_id`,`visitor_hash`,`sequence`) WHERE "events"."visitor_hash" is not null;
--> statement-breakpoint
CREATE INDEX `events_by_time` ON `events` (`timestamp`);
