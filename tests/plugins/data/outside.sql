SELECT * FROM read_csv('FILE')
SELECT * FROM read_csv_auto('FILE')
SELECT * FROM 'FILE'
SELECT * FROM "FILE"
SELECT content FROM read_text('FILE')
SELECT * FROM read_blob('FILE')
SELECT * FROM read_json('FILE')
SELECT * FROM read_json_objects('FILE')
SELECT * FROM read_ndjson('FILE')
SELECT * FROM read_parquet('FILE')
SELECT * FROM parquet_scan('FILE')
SELECT * FROM parquet_metadata('FILE')
SELECT * FROM sniff_csv('FILE')
SELECT * FROM glob('/etc/*')
SELECT * FROM read_csv('https://example.org/a.csv')
SELECT * FROM 's3://bucket/a.parquet'
SELECT getenv('AF_PLANTED')
SELECT * FROM duckdb_settings()
SELECT * FROM duckdb_secrets()
SELECT * FROM duckdb_tables()
SELECT * FROM duckdb_views()
SELECT * FROM duckdb_functions()
SELECT * FROM duckdb_columns
SELECT * FROM duckdb_memory()
SELECT * FROM pragma_database_list
SELECT * FROM pragma_table_info('rows')
SELECT * FROM pragma_version()
SELECT * FROM information_schema.tables
SELECT * FROM information_schema.columns
SELECT * FROM pg_catalog.pg_class
SELECT * FROM pg_tables
SELECT * FROM sqlite_master
SELECT * FROM query('SELECT content FROM read_text(''FILE'')')
SELECT * FROM query_table('FILE')
SELECT * FROM query_table(['hidden'])
SELECT * FROM sql_auto_complete('SEL')
SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))
SELECT json_serialize_sql('SELECT 1')
SELECT current_setting('memory_limit')
SELECT getvariable('x')
SELECT * FROM hidden
SELECT * FROM secret
SELECT * FROM main.rows_
SELECT * FROM memory.main.casts
SELECT * FROM seq_scan('casts')
SELECT * FROM pandas_scan(1)
SELECT * FROM arrow_scan(1, 2, 3)
SELECT * FROM python_map_function()
SELECT * FROM test_all_types()
SELECT * FROM checkpoint()
SELECT * FROM which_secret('FILE', 's3')
COPY casts TO 'OUT'
COPY (SELECT * FROM casts) TO 'OUT' (FORMAT csv)
EXPORT DATABASE 'OUT'
IMPORT DATABASE 'OUT'
ATTACH 'OUT' AS x
ATTACH ':memory:' AS x
INSTALL httpfs
LOAD httpfs
SET enable_external_access = true
SET memory_limit = '10GB'
RESET memory_limit
PRAGMA database_list
PRAGMA enable_profiling
CALL pragma_version()
CREATE TABLE t AS SELECT * FROM casts
CREATE MACRO f() AS TABLE SELECT * FROM read_text('FILE')
CREATE SECRET (TYPE s3)
CREATE TEMP TABLE t (x INT)
INSERT INTO casts VALUES ('a', 1, 1)
UPDATE casts SET temp = 0
DELETE FROM casts
DROP VIEW casts
ALTER TABLE casts RENAME TO x
TRUNCATE casts
SELECT 1; DROP VIEW casts
SELECT 1; SELECT 2
SELECT 1;; COPY casts TO 'OUT'
PREPARE q AS SELECT * FROM casts
EXECUTE q(1)
DEALLOCATE q
EXPLAIN SELECT * FROM casts
EXPLAIN ANALYZE SELECT * FROM casts
SHOW TABLES
SHOW ALL TABLES
USE memory
BEGIN
VACUUM
CHECKPOINT
SELECT * FROM casts WHERE temp > $1
SELECT * FROM casts WHERE temp > ?
WITH x AS (SELECT content FROM read_text('FILE')) SELECT * FROM x
WITH RECURSIVE x AS (SELECT 1 UNION ALL SELECT n FROM read_csv('FILE')) SELECT * FROM x
SELECT (SELECT content FROM read_text('FILE'))
SELECT * FROM casts WHERE site IN (SELECT content FROM read_text('FILE'))
SELECT * FROM casts, LATERAL (SELECT * FROM read_text('FILE'))
SELECT * FROM casts UNION ALL SELECT content, 1, 1 FROM read_text('FILE')
SELECT list_transform([1], x -> (SELECT content FROM read_text('FILE')))
PIVOT casts ON site USING sum(temp)
PIVOT (SELECT * FROM read_csv('FILE')) ON a IN (1) USING count(*)
UNPIVOT read_csv('FILE') ON COLUMNS(*) INTO NAME n VALUE v
SELECT * FROM (SHOW TABLES)
SELECT * FROM (SUMMARIZE hidden)
FROM read_text('FILE')
TABLE hidden
VALUES ((SELECT content FROM read_text('FILE')))
SELECT write_log('x')
SELECT * FROM duckdb_logs
SELECT * FROM enable_logging()
SELECT * FROM "/proc/self/environ"
SELECT * FROM read_text('/proc/self/environ')
SELECT * FROM casts ORDER BY (SELECT content FROM read_text('FILE'))
SELECT * FROM casts LIMIT (SELECT count(*) FROM hidden)
SELECT * FROM casts QUALIFY row_number() OVER (ORDER BY (SELECT max(x) FROM hidden)) = 1
SELECT nextval('s')
;
-- nothing
SELEC 1
SELECT * FROM casts WHERE
MERGE INTO casts USING casts c ON true WHEN MATCHED THEN DELETE
COMMENT ON TABLE casts IS 'x'
SELECT * FROM histogram_values(casts, temp)
SELECT * FROM summary((SELECT * FROM casts))
SELECT * FROM storage_info('casts')
SELECT * FROM repeat('x', 3)
FROM 'data:text/csv,a'
SELECT * FROM read_duckdb('FILE')
SELECT * FROM st_read('FILE')
SELECT * FROM sqlite_scan('FILE', 't')
SELECT * FROM postgres_query('x', 'y')
SELECT load_extension('x')
