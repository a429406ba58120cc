ALTER TABLE `conversations` ADD `last_message` text;
--> statement-breakpoint
UPDATE `conversations` SET `last_message` = (
  SELECT json_array(`id`, `sequence`, `sender`, json(`author`), `created_at`, substr(`content`, 1, 200))
  FROM `messages` WHERE `conversation_key` = `conversations`.`key` AND `sequence` = `conversations`.`message_count`
) WHERE `account_id` IS NOT NULL;
