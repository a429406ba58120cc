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
CREATE INDEX `search_texts_waiting` ON `search_texts` (`account_key`,`number`) WHERE "search_texts"."indexed_terms" is null;
--> statement-breakpoint
-- Written by hand from here on: drizzle does not know virtual tables. The words of the texts, without the texts. It is
-- merged in steps by the program, and what is deleted from it is overwritten.
CREATE VIRTUAL TABLE `search_words` USING fts5(words, content='', tokenize='ascii', detail=none, columnsize=0);
--> statement-breakpoint
INSERT INTO `search_words` (`search_words`, `rank`) VALUES ('secure-delete', 1), ('automerge', 0), ('usermerge', 8), ('crisismerge', 1999);
--> statement-breakpoint
CREATE VIRTUAL TABLE `search_vocabulary` USING fts5vocab(search_words, row);
--> statement-breakpoint
-- The texts that were there before are indexed in the background, the newest first: this is how far that has come.
INSERT INTO `meta` (`name`, `value`) SELECT 'search_backlog', '{}' WHERE EXISTS (SELECT 1 FROM `conversations`);
