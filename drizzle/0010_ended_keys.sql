ALTER TABLE `api_keys` ADD `ends_at` integer GENERATED ALWAYS AS (min(ifnull(expires_at, revoked_at), ifnull(revoked_at, expires_at))) VIRTUAL;--> statement-breakpoint
CREATE INDEX `api_keys_by_account_and_end` ON `api_keys` (`account_id`,`ends_at`);--> statement-breakpoint
CREATE INDEX `api_keys_by_expiry` ON `api_keys` (`expires_at`) WHERE revoked_at IS NULL;