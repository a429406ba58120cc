CREATE TABLE "account_origins" (
	"account_id" text COLLATE "C" NOT NULL,
	"origin" text COLLATE "C" NOT NULL,
	CONSTRAINT "account_origins_account_id_origin_pk" PRIMARY KEY("account_id","origin")
);
--> statement-breakpoint
CREATE TABLE "account_totals" (
	"account_id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"active" integer DEFAULT 0 NOT NULL,
	"pending" integer DEFAULT 0 NOT NULL,
	"closed" integer DEFAULT 0 NOT NULL,
	"leads" integer DEFAULT 0 NOT NULL,
	"event_sequence" bigint DEFAULT 0 NOT NULL
);
--> statement-breakpoint
CREATE TABLE "accounts" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"key" integer GENERATED ALWAYS AS IDENTITY (sequence name "accounts_key_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 2147483647 START WITH 1 CACHE 1),
	"name" text COLLATE "C" NOT NULL,
	"plan" text COLLATE "C" NOT NULL,
	"requests_per_hour" integer,
	"created_at" bigint NOT NULL
);
--> statement-breakpoint
CREATE TABLE "analytics_counters" (
	"account_id" text COLLATE "C" NOT NULL,
	"quarter" integer NOT NULL,
	"conversations_started" integer NOT NULL,
	"conversations_closed" integer NOT NULL,
	"conversations_reopened" integer NOT NULL,
	"conversations_converted" integer NOT NULL,
	"agent_messages" integer NOT NULL,
	"visitor_messages" integer NOT NULL,
	"bot_messages" integer NOT NULL,
	"leads" integer NOT NULL,
	"first_responses" integer NOT NULL,
	"first_response_ms" bigint NOT NULL,
	"resolutions" integer NOT NULL,
	"resolution_ms" bigint NOT NULL,
	CONSTRAINT "analytics_counters_account_id_quarter_pk" PRIMARY KEY("account_id","quarter")
);
--> statement-breakpoint
CREATE TABLE "analytics_histograms" (
	"account_id" text COLLATE "C" NOT NULL,
	"name" text COLLATE "C" NOT NULL,
	"width" integer NOT NULL,
	"quarter" integer NOT NULL,
	"bucket" integer NOT NULL,
	"count" integer NOT NULL,
	CONSTRAINT "analytics_histograms_account_id_name_width_quarter_bucket_pk" PRIMARY KEY("account_id","name","width","quarter","bucket")
);
--> statement-breakpoint
CREATE TABLE "api_keys" (
	"account_id" text COLLATE "C" NOT NULL,
	"id" text COLLATE "C" NOT NULL,
	"name" text COLLATE "C" NOT NULL,
	"prefix" text COLLATE "C" NOT NULL,
	"secret_hash" "bytea" NOT NULL,
	"scopes" json NOT NULL,
	"expires_at" bigint,
	"last_used_at" bigint,
	"created_at" bigint NOT NULL,
	"revoked_at" bigint,
	"ends_at" bigint GENERATED ALWAYS AS (least(expires_at, revoked_at)) STORED,
	CONSTRAINT "api_keys_account_id_id_pk" PRIMARY KEY("account_id","id")
);
--> statement-breakpoint
CREATE TABLE "attempts" (
	"account_id" text COLLATE "C" NOT NULL,
	"delivery_id" text COLLATE "C" NOT NULL,
	"number" integer NOT NULL,
	"id" text COLLATE "C" NOT NULL,
	"started_at" bigint NOT NULL,
	"duration_ms" integer NOT NULL,
	"trigger" text COLLATE "C" NOT NULL,
	"response_status" integer,
	"response_body" text COLLATE "C",
	"error" text COLLATE "C",
	CONSTRAINT "attempts_account_id_delivery_id_number_pk" PRIMARY KEY("account_id","delivery_id","number")
);
--> statement-breakpoint
CREATE TABLE "conversation_tags" (
	"account_id" text COLLATE "C" NOT NULL,
	"tag" text COLLATE "C" NOT NULL,
	"conversation_id" text COLLATE "C" NOT NULL,
	CONSTRAINT "conversation_tags_account_id_tag_conversation_id_pk" PRIMARY KEY("account_id","tag","conversation_id")
);
--> statement-breakpoint
CREATE TABLE "conversations" (
	"account_id" text COLLATE "C" NOT NULL,
	"id" text COLLATE "C" NOT NULL,
	"status" text COLLATE "C" NOT NULL,
	"subject" text COLLATE "C",
	"visitor" json,
	"external_id" text COLLATE "C",
	"assignee" json,
	"visitor_id" text COLLATE "C",
	"visitor_email" text COLLATE "C",
	"assignee_id" text COLLATE "C",
	"tags" json NOT NULL,
	"metadata" json NOT NULL,
	"message_count" integer NOT NULL,
	"content_bytes" bigint NOT NULL,
	"last_message" json,
	"last_activity_at" bigint NOT NULL,
	"first_visitor_message_at" bigint,
	"first_response_at" bigint,
	"reopened_at" bigint,
	"closed_at" bigint,
	"converted" boolean DEFAULT false NOT NULL,
	"version" integer NOT NULL,
	"created_at" bigint NOT NULL,
	"updated_at" bigint NOT NULL,
	CONSTRAINT "conversations_account_id_id_pk" PRIMARY KEY("account_id","id")
);
--> statement-breakpoint
CREATE TABLE "deliveries" (
	"account_id" text COLLATE "C" NOT NULL,
	"id" text COLLATE "C" NOT NULL,
	"webhook_id" text COLLATE "C" NOT NULL,
	"event_id" text COLLATE "C" NOT NULL,
	"event_type" text COLLATE "C" NOT NULL,
	"event_sequence" bigint,
	"sample" json,
	"status" text COLLATE "C" NOT NULL,
	"attempt_count" integer NOT NULL,
	"step" integer NOT NULL,
	"trigger" text COLLATE "C" NOT NULL,
	"due_at" bigint,
	"traceparent" text COLLATE "C",
	"created_at" bigint NOT NULL,
	"completed_at" bigint,
	CONSTRAINT "deliveries_account_id_id_pk" PRIMARY KEY("account_id","id")
);
--> statement-breakpoint
CREATE TABLE "delivery_leases" (
	"account_id" text COLLATE "C" NOT NULL,
	"delivery_id" text COLLATE "C" NOT NULL,
	"lease" text COLLATE "C" NOT NULL,
	"ends_at" bigint NOT NULL,
	CONSTRAINT "delivery_leases_account_id_delivery_id_pk" PRIMARY KEY("account_id","delivery_id")
);
--> statement-breakpoint
CREATE TABLE "erasing" (
	"account_id" text COLLATE "C" NOT NULL,
	"conversation_id" text COLLATE "C" NOT NULL,
	"event_sequence" bigint NOT NULL,
	CONSTRAINT "erasing_account_id_conversation_id_pk" PRIMARY KEY("account_id","conversation_id")
);
--> statement-breakpoint
CREATE TABLE "events" (
	"account_id" text COLLATE "C" NOT NULL,
	"sequence" bigint NOT NULL,
	"id" text COLLATE "C" NOT NULL,
	"type" text COLLATE "C" NOT NULL,
	"conversation_id" text COLLATE "C",
	"visitor_hash" text COLLATE "C",
	"timestamp" bigint NOT NULL,
	"data" json NOT NULL,
	CONSTRAINT "events_account_id_sequence_pk" PRIMARY KEY("account_id","sequence")
);
--> statement-breakpoint
CREATE TABLE "kept_results" (
	"account_id" text COLLATE "C" NOT NULL,
	"idempotency_key" text COLLATE "C" NOT NULL,
	"fingerprint" "bytea" NOT NULL,
	"result" text COLLATE "C",
	"conversation_id" text COLLATE "C",
	"created_at" bigint NOT NULL,
	CONSTRAINT "kept_results_account_id_idempotency_key_pk" PRIMARY KEY("account_id","idempotency_key")
);
--> statement-breakpoint
CREATE TABLE "leads" (
	"account_id" text COLLATE "C" NOT NULL,
	"id" text COLLATE "C" NOT NULL,
	"conversation_id" text COLLATE "C",
	"name" text COLLATE "C",
	"email" text COLLATE "C",
	"comparable_email" text COLLATE "C",
	"phone" text COLLATE "C",
	"company" text COLLATE "C",
	"metadata" json NOT NULL,
	"created_at" bigint NOT NULL,
	CONSTRAINT "leads_account_id_id_pk" PRIMARY KEY("account_id","id")
);
--> statement-breakpoint
CREATE TABLE "messages" (
	"account_id" text COLLATE "C" NOT NULL,
	"conversation_id" text COLLATE "C" NOT NULL,
	"sequence" integer NOT NULL,
	"id" text COLLATE "C" NOT NULL,
	"sender" text COLLATE "C" NOT NULL,
	"content" text COLLATE "C" NOT NULL,
	"author" json,
	"client_id" text COLLATE "C",
	"metadata" json NOT NULL,
	"created_at" bigint NOT NULL,
	CONSTRAINT "messages_account_id_conversation_id_sequence_pk" PRIMARY KEY("account_id","conversation_id","sequence")
);
--> statement-breakpoint
CREATE TABLE "meta" (
	"name" text COLLATE "C" PRIMARY KEY NOT NULL,
	"value" text COLLATE "C" NOT NULL
);
--> statement-breakpoint
CREATE TABLE "rate_clock" (
	"key" integer PRIMARY KEY NOT NULL,
	"at" bigint NOT NULL
);
--> statement-breakpoint
CREATE TABLE "rate_windows" (
	"account_id" text COLLATE "C" NOT NULL,
	"minute" integer NOT NULL,
	"count" integer NOT NULL,
	CONSTRAINT "rate_windows_account_id_minute_pk" PRIMARY KEY("account_id","minute")
);
--> statement-breakpoint
CREATE TABLE "read_positions" (
	"account_id" text COLLATE "C" NOT NULL,
	"conversation_id" text COLLATE "C" NOT NULL,
	"reader" text COLLATE "C" NOT NULL,
	"sequence" integer NOT NULL,
	"read_at" bigint NOT NULL,
	"move" integer NOT NULL,
	CONSTRAINT "read_positions_account_id_conversation_id_reader_pk" PRIMARY KEY("account_id","conversation_id","reader")
);
--> statement-breakpoint
CREATE TABLE "search_texts" (
	"account_id" text COLLATE "C" NOT NULL,
	"number" bigint NOT NULL,
	"conversation_id" text COLLATE "C" NOT NULL,
	"sequence" integer NOT NULL,
	"created_at" bigint NOT NULL,
	"terms" "tsvector" NOT NULL,
	CONSTRAINT "search_texts_account_id_number_pk" PRIMARY KEY("account_id","number")
);
--> statement-breakpoint
CREATE TABLE "sign_ins" (
	"account_id" text COLLATE "C" NOT NULL,
	"secret_hash" "bytea" NOT NULL,
	"key_id" text COLLATE "C" NOT NULL,
	"expires_at" bigint NOT NULL,
	CONSTRAINT "sign_ins_account_id_secret_hash_pk" PRIMARY KEY("account_id","secret_hash")
);
--> statement-breakpoint
CREATE TABLE "trusted_documents" (
	"account_id" text COLLATE "C" NOT NULL,
	"number" integer NOT NULL,
	"id" text COLLATE "C" NOT NULL,
	"text" text COLLATE "C" NOT NULL,
	"bytes" integer NOT NULL,
	"created_at" bigint NOT NULL,
	CONSTRAINT "trusted_documents_account_id_number_pk" PRIMARY KEY("account_id","number")
);
--> statement-breakpoint
CREATE TABLE "unread_conversations" (
	"account_id" text COLLATE "C" NOT NULL,
	"reader" text COLLATE "C" NOT NULL,
	"conversation_id" text COLLATE "C" NOT NULL,
	"last_activity_at" bigint NOT NULL,
	CONSTRAINT "unread_conversations_account_id_reader_conversation_id_pk" PRIMARY KEY("account_id","reader","conversation_id")
);
--> statement-breakpoint
CREATE TABLE "webhooks" (
	"account_id" text COLLATE "C" NOT NULL,
	"id" text COLLATE "C" NOT NULL,
	"url" text COLLATE "C" NOT NULL,
	"events" json NOT NULL,
	"description" text COLLATE "C",
	"enabled" boolean NOT NULL,
	"disabled_reason" text COLLATE "C",
	"secrets" json NOT NULL,
	"failing_since" bigint,
	"removed" boolean DEFAULT false NOT NULL,
	"created_at" bigint NOT NULL,
	"updated_at" bigint NOT NULL,
	CONSTRAINT "webhooks_account_id_id_pk" PRIMARY KEY("account_id","id")
);
--> statement-breakpoint
ALTER TABLE "attempts" ADD CONSTRAINT "attempts_account_id_delivery_id_deliveries_account_id_id_fk" FOREIGN KEY ("account_id","delivery_id") REFERENCES "public"."deliveries"("account_id","id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "delivery_leases" ADD CONSTRAINT "delivery_leases_account_id_delivery_id_deliveries_account_id_id_fk" FOREIGN KEY ("account_id","delivery_id") REFERENCES "public"."deliveries"("account_id","id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "sign_ins" ADD CONSTRAINT "sign_ins_account_id_key_id_api_keys_account_id_id_fk" FOREIGN KEY ("account_id","key_id") REFERENCES "public"."api_keys"("account_id","id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "account_origins_by_origin" ON "account_origins" USING btree ("origin");--> statement-breakpoint
CREATE INDEX "api_keys_by_secret" ON "api_keys" USING btree ("secret_hash");--> statement-breakpoint
CREATE INDEX "api_keys_by_id" ON "api_keys" USING btree ("id");--> statement-breakpoint
CREATE INDEX "api_keys_by_account_and_end" ON "api_keys" USING btree ("account_id","ends_at");--> statement-breakpoint
CREATE INDEX "api_keys_by_expiry" ON "api_keys" USING btree ("expires_at") WHERE revoked_at IS NULL;--> statement-breakpoint
CREATE INDEX "conversations_by_status" ON "conversations" USING btree ("account_id","status","id");--> statement-breakpoint
CREATE INDEX "conversations_by_status_and_activity" ON "conversations" USING btree ("account_id","status","last_activity_at","id");--> statement-breakpoint
CREATE UNIQUE INDEX "conversations_by_external_id" ON "conversations" USING btree ("account_id","external_id") WHERE external_id IS NOT NULL;--> statement-breakpoint
CREATE INDEX "conversations_by_visitor" ON "conversations" USING btree ("account_id","visitor_id","id") WHERE visitor_id IS NOT NULL;--> statement-breakpoint
CREATE INDEX "conversations_by_visitor_email" ON "conversations" USING btree ("account_id","visitor_email","id") WHERE visitor_email IS NOT NULL;--> statement-breakpoint
CREATE INDEX "conversations_by_assignee" ON "conversations" USING btree ("account_id","assignee_id","status","id");--> statement-breakpoint
CREATE INDEX "conversations_by_assignee_and_activity" ON "conversations" USING btree ("account_id","assignee_id","status","last_activity_at","id") WHERE assignee_id IS NOT NULL;--> statement-breakpoint
CREATE INDEX "conversations_by_update" ON "conversations" USING btree ("account_id","updated_at","last_activity_at") WHERE updated_at > last_activity_at;--> statement-breakpoint
CREATE INDEX "deliveries_by_id" ON "deliveries" USING btree ("id");--> statement-breakpoint
CREATE INDEX "deliveries_by_webhook" ON "deliveries" USING btree ("account_id","webhook_id","id");--> statement-breakpoint
CREATE INDEX "deliveries_due" ON "deliveries" USING btree ("account_id","webhook_id","due_at") WHERE status = 'pending';--> statement-breakpoint
CREATE INDEX "deliveries_failed" ON "deliveries" USING btree ("account_id","webhook_id","id") WHERE status = 'failed';--> statement-breakpoint
CREATE INDEX "events_by_conversation" ON "events" USING btree ("account_id","conversation_id","sequence");--> statement-breakpoint
CREATE INDEX "events_by_visitor" ON "events" USING btree ("account_id","visitor_hash","sequence") WHERE visitor_hash IS NOT NULL;--> statement-breakpoint
CREATE INDEX "events_by_time" ON "events" USING btree ("timestamp");--> statement-breakpoint
CREATE INDEX "kept_results_by_conversation" ON "kept_results" USING btree ("account_id","conversation_id") WHERE conversation_id IS NOT NULL;--> statement-breakpoint
CREATE INDEX "kept_results_by_time" ON "kept_results" USING btree ("created_at");--> statement-breakpoint
CREATE INDEX "leads_by_conversation" ON "leads" USING btree ("account_id","conversation_id","id") WHERE conversation_id IS NOT NULL;--> statement-breakpoint
CREATE INDEX "leads_by_email" ON "leads" USING btree ("account_id","comparable_email","id") WHERE comparable_email IS NOT NULL;--> statement-breakpoint
CREATE UNIQUE INDEX "messages_by_id" ON "messages" USING btree ("account_id","id");--> statement-breakpoint
CREATE UNIQUE INDEX "search_texts_by_place" ON "search_texts" USING btree ("account_id","conversation_id","sequence");--> statement-breakpoint
CREATE INDEX "search_texts_by_term" ON "search_texts" USING gin ("terms");--> statement-breakpoint
CREATE INDEX "sign_ins_by_secret" ON "sign_ins" USING btree ("secret_hash");--> statement-breakpoint
CREATE INDEX "sign_ins_by_key" ON "sign_ins" USING btree ("account_id","key_id","expires_at");--> statement-breakpoint
CREATE INDEX "sign_ins_by_expiry" ON "sign_ins" USING btree ("expires_at");--> statement-breakpoint
CREATE UNIQUE INDEX "trusted_documents_by_id" ON "trusted_documents" USING btree ("account_id","id");--> statement-breakpoint
CREATE INDEX "trusted_documents_by_size" ON "trusted_documents" USING btree ("account_id","bytes");--> statement-breakpoint
CREATE INDEX "unread_conversations_by_activity" ON "unread_conversations" USING btree ("account_id","reader","last_activity_at","conversation_id");--> statement-breakpoint
CREATE INDEX "webhooks_by_id" ON "webhooks" USING btree ("id");--> statement-breakpoint
CREATE INDEX "webhooks_enabled" ON "webhooks" USING btree ("account_id","id") WHERE enabled AND NOT removed;--> statement-breakpoint
CREATE INDEX "webhooks_removed" ON "webhooks" USING btree ("account_id","id") WHERE removed;