CREATE TABLE `conversation_tags` (
	`account_id` text NOT NULL,
	`tag` text NOT NULL,
	`conversation_id` text NOT NULL,
	PRIMARY KEY(`account_id`, `tag`, `conversation_id`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
INSERT INTO `conversation_tags` (`account_id`, `tag`, `conversation_id`)
SELECT `conversations`.`account_id`, `tag`.`value`, `conversations`.`id`
FROM `conversations`, json_each(`conversations`.`tags`) AS `tag`
WHERE `conversations`.`account_id` IS NOT NULL AND `conversations`.`tags` <> '[]';
