CREATE TABLE `analytics_counters` (
	`account_id` text NOT NULL,
	`quarter` integer NOT NULL,
	`conversations_started` integer NOT NULL,
	`conversations_closed` integer NOT NULL,
	`conversations_reopened` integer NOT NULL,
	`conversations_converted` integer NOT NULL,
	`agent_messages` integer NOT NULL,
	`visitor_messages` integer NOT NULL,
	`bot_messages` integer NOT NULL,
	`leads` integer NOT NULL,
	`first_responses` integer NOT NULL,
	`first_response_ms` integer NOT NULL,
	`resolutions` integer NOT NULL,
	`resolution_ms` integer NOT NULL,
	PRIMARY KEY(`account_id`, `quarter`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `analytics_histograms` (
	`account_id` text NOT NULL,
	`name` text NOT NULL,
	`width` integer NOT NULL,
	`quarter` integer NOT NULL,
	`counts` blob NOT NULL,
	PRIMARY KEY(`account_id`, `name`, `width`, `quarter`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
ALTER TABLE `conversations` ADD `reopened_at` integer;--> statement-breakpoint
ALTER TABLE `conversations` ADD `converted` integer DEFAULT false NOT NULL;--> statement-breakpoint
-- Written by hand from here on: what is there already is counted as if it were happening now.
--
-- Exact are conversations started, messages, leads, conversions and first responses: their times are stored.
-- Of closings the rows hold only the last of each conversation that is closed; earlier ones are known from the
-- event log, as far as it reaches back. Reopenings left no trace of their own. One must lie between a closing
-- and what came after it, and is taken to be at the very next thing that is known: the next message, which is
-- right where a visitor reopened by writing, or else the next closing, or the conversation's last change.
CREATE TEMP TABLE `filling_closings` AS
WITH `closings` AS (
	SELECT `c`.`key` AS `conversation_key`, `e`.`timestamp` AS `closed_at`, `e`.`sequence` AS `place`,
		`e`.`data` ->> '$.conversation.messageCount' AS `message_count`
	FROM `events` AS `e` JOIN `conversations` AS `c` ON `c`.`account_id` = `e`.`account_id` AND `c`.`id` = `e`.`conversation_id`
	WHERE `e`.`type` = 'conversation.closed'
	UNION ALL
	SELECT `key`, `closed_at`, 0, `message_count` FROM `conversations` AS `c`
	WHERE `closed_at` IS NOT NULL AND NOT EXISTS (
		SELECT 1 FROM `events` AS `e`
		WHERE `e`.`account_id` = `c`.`account_id` AND `e`.`conversation_id` = `c`.`id`
			AND `e`.`type` = 'conversation.closed' AND `e`.`timestamp` = `c`.`closed_at`
	)
), `ordered` AS (
	SELECT *, lead(`closed_at`) OVER (PARTITION BY `conversation_key` ORDER BY `place`, `closed_at`) AS `next_closed_at`
	FROM `closings`
)
SELECT `o`.`conversation_key`, `o`.`closed_at`, `o`.`place`,
	CASE WHEN `o`.`next_closed_at` IS NOT NULL OR `c`.`closed_at` IS NULL THEN
		min(ifnull(`m`.`created_at`, 9e15), coalesce(`o`.`next_closed_at`, `c`.`updated_at`))
	END AS `reopened_at`
FROM `ordered` AS `o` JOIN `conversations` AS `c` ON `c`.`key` = `o`.`conversation_key`
LEFT JOIN `messages` AS `m` ON `m`.`conversation_key` = `o`.`conversation_key` AND `m`.`sequence` = `o`.`message_count` + 1;
--> statement-breakpoint
CREATE INDEX temp.`filling_closings_by_conversation` ON `filling_closings` (`conversation_key`, `place`, `closed_at`);
--> statement-breakpoint
UPDATE `conversations` SET `reopened_at` = (
	SELECT max(`reopened_at`) FROM temp.`filling_closings` WHERE `conversation_key` = `key`
) WHERE `key` IN (SELECT `conversation_key` FROM temp.`filling_closings` WHERE `reopened_at` IS NOT NULL);
--> statement-breakpoint
UPDATE `conversations` SET `converted` = true WHERE (`account_id`, `id`) IN (
	SELECT `account_id`, `conversation_id` FROM `leads` WHERE `conversation_id` IS NOT NULL
);
--> statement-breakpoint
CREATE TEMP TABLE `filling_durations` AS
SELECT `account_id`, `first_response_at` / 900000 AS `quarter`, 'firstResponses' AS `name`,
	max(0, `first_response_at` - `first_visitor_message_at`) AS `ms`
FROM `conversations` WHERE `first_response_at` IS NOT NULL
UNION ALL
SELECT `c`.`account_id`, `f`.`closed_at` / 900000, 'resolutions',
	max(0, `f`.`closed_at` - ifnull(lag(`f`.`reopened_at`) OVER (PARTITION BY `f`.`conversation_key` ORDER BY `f`.`place`, `f`.`closed_at`), `c`.`created_at`))
FROM temp.`filling_closings` AS `f` JOIN `conversations` AS `c` ON `c`.`key` = `f`.`conversation_key`;
--> statement-breakpoint
INSERT INTO `analytics_counters`
SELECT `account_id`, `quarter`, sum(`started`), sum(`closed`), sum(`reopened`), sum(`converted`),
	sum(`agent`), sum(`visitor`), sum(`bot`), sum(`leads`),
	sum(`responses`), sum(`response_ms`), sum(`closed`), sum(`resolution_ms`)
FROM (
	SELECT `account_id`, `created_at` / 900000 AS `quarter`, 1 AS `started`, 0 AS `closed`, 0 AS `reopened`, `converted`,
		0 AS `agent`, 0 AS `visitor`, 0 AS `bot`, 0 AS `leads`, 0 AS `responses`, 0 AS `response_ms`, 0 AS `resolution_ms`
	FROM `conversations`
	UNION ALL
	SELECT `c`.`account_id`, `f`.`reopened_at` / 900000, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0
	FROM temp.`filling_closings` AS `f` JOIN `conversations` AS `c` ON `c`.`key` = `f`.`conversation_key`
	WHERE `f`.`reopened_at` IS NOT NULL
	UNION ALL
	SELECT `c`.`account_id`, `m`.`created_at` / 900000, 0, 0, 0, 0,
		`m`.`sender` = 'agent', `m`.`sender` = 'visitor', `m`.`sender` = 'bot', 0, 0, 0, 0
	FROM `messages` AS `m` JOIN `conversations` AS `c` ON `c`.`key` = `m`.`conversation_key`
	UNION ALL
	SELECT `account_id`, `created_at` / 900000, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0 FROM `leads`
	UNION ALL
	SELECT `account_id`, `quarter`, 0, 0, 0, 0, 0, 0, 0, 0, 1, `ms`, 0 FROM temp.`filling_durations` WHERE `name` = 'firstResponses'
	UNION ALL
	SELECT `account_id`, `quarter`, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, `ms` FROM temp.`filling_durations` WHERE `name` = 'resolutions'
)
GROUP BY `account_id`, `quarter`;
--> statement-breakpoint
INSERT INTO `analytics_histograms`
SELECT `account_id`, `name`, `width`, `quarter`, unhex(group_concat(printf('%04x%08x', `bucket`, `count`), '' ORDER BY `bucket`))
FROM (
	SELECT `account_id`, `name`, `w`.`value` AS `width`, `quarter` / `w`.`value` * `w`.`value` AS `quarter`,
		CASE WHEN `ms` < 1 THEN 0 ELSE 1 + CAST(floor(ln(`ms`) / ln(1.01)) AS INTEGER) END AS `bucket`, count(*) AS `count`
	FROM temp.`filling_durations` CROSS JOIN json_each('[96, 4, 1]') AS `w`
	GROUP BY 1, 2, 3, 4, 5
)
GROUP BY 1, 2, 3, 4;
--> statement-breakpoint
DROP TABLE temp.`filling_durations`;
--> statement-breakpoint
DROP TABLE temp.`filling_closings`;
