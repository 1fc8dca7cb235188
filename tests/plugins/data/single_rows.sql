SELECT * FROM people
SELECT name FROM people
SELECT name FROM people LIMIT 1
SELECT name FROM people ORDER BY salary DESC LIMIT 1 OFFSET 3
SELECT DISTINCT name FROM people
SELECT DISTINCT ON (ward) ward, name FROM people ORDER BY ward, salary
SELECT min(salary) FROM people
SELECT max(name) FROM people
SELECT first(name) FROM people
SELECT last(name) FROM people
SELECT any_value(name) FROM people
SELECT arbitrary(name) FROM people
SELECT mode(name) FROM people
SELECT arg_max(name, salary) FROM people
SELECT max_by(name, salary) FROM people
SELECT arg_min(salary, age) FROM people
SELECT list(name) FROM people
SELECT array_agg(salary) FROM people
SELECT string_agg(name, ',') FROM people
SELECT group_concat(name) FROM people
SELECT listagg(name, ',') FROM people
SELECT histogram(salary) FROM people
SELECT map_from_entries(list((name, salary))) FROM people
SELECT approx_quantile(salary, 0.99) FROM people
SELECT quantile_disc(salary, 0.5) FROM people
SELECT quantile_cont(salary, 1.0) FROM people
SELECT median(salary) FROM people
SELECT mad(salary) FROM people
SELECT approx_top_k(name, 3) FROM people
SELECT reservoir_quantile(salary, 1.0) FROM people
SELECT bit_and(id) FROM people
SELECT bit_xor(id) FROM people
SELECT product(salary) FROM people WHERE id = 1
SELECT bool_or(salary > 7301600) FROM people
SELECT bool_and(id <> 7 OR salary > 3) FROM people
SELECT sum(CASE WHEN id = 7 THEN salary ELSE 0 END) FROM people
SELECT sum(salary) FILTER (WHERE id = 7) FROM people
SELECT avg(salary) FROM people WHERE id = 7
SELECT sum(salary * (id = 7)::INT) FROM people
SELECT avg(nullif(salary, 0)) FROM people WHERE id = 7
SELECT ward, name, count(*) FROM people GROUP BY ALL
SELECT name, salary, count(*) FROM people GROUP BY name, salary
SELECT rare, count(*) FROM people GROUP BY rare
SELECT dept, count(*) FROM people GROUP BY dept
SELECT cat, count(*) FROM people GROUP BY cat
SELECT note, avg(salary) FROM people GROUP BY note HAVING count(*) < 5
SELECT note, count(*) FROM people GROUP BY note
SELECT avg(part) FROM people
SELECT sum(part), count(*) FROM people
SELECT stddev(part) FROM people
SELECT avg(salary), part FROM people GROUP BY part
SELECT part, name, count(*) FROM people GROUP BY GROUPING SETS ((part), (name), ())
SELECT ward, name, sum(salary) FROM people GROUP BY ROLLUP (ward, name)
SELECT ward, name, sum(salary) FROM people GROUP BY CUBE (ward, name)
SELECT sum(salary) OVER (PARTITION BY id) FROM people
SELECT name, row_number() OVER () FROM people
SELECT lag(name) OVER (ORDER BY id) FROM people
SELECT ward, sum(salary) FROM people GROUP BY ward QUALIFY row_number() OVER (ORDER BY max(name)) = 1
SELECT sum(sum(salary)) OVER (ORDER BY id) FROM people GROUP BY id
SELECT count(*), max(name) FROM people GROUP BY ward HAVING count(*) > 5
SELECT count(*) FROM people HAVING max(salary) > 7301600
SELECT ward, count(*) FROM people GROUP BY ward ORDER BY max(name)
SELECT ward, count(*) FROM people GROUP BY ward ORDER BY name
SELECT p.name, count(*) FROM people p JOIN people q ON p.ward = q.ward GROUP BY p.name
SELECT p.name, count(*) FROM people p, people q GROUP BY p.name
SELECT p.name, count(*) FROM people p, range(10) GROUP BY p.name
SELECT name, count(*) FROM people, other GROUP BY name
SELECT p.name, avg(p.salary) FROM people p CROSS JOIN other GROUP BY 1
SELECT name, count(*) FROM people, unnest([1,2,3,4,5]) GROUP BY name
SELECT name, count(*) FROM people POSITIONAL JOIN other GROUP BY name
WITH x AS (SELECT * FROM people) SELECT * FROM x
WITH x AS (SELECT list(name) AS l FROM people) SELECT unnest(l) FROM x
WITH x AS MATERIALIZED (SELECT name FROM people) SELECT count(*), (SELECT min(name) FROM x) FROM people
WITH people AS (SELECT 1 AS salary) SELECT sum(salary) FROM people
SELECT (SELECT name FROM people LIMIT 1)
SELECT (SELECT name FROM people WHERE id = 7), count(*) FROM people
SELECT count(*) FROM people WHERE salary > (SELECT min(salary) FROM people)
SELECT o.k, (SELECT name FROM people WHERE id = o.k) FROM other o
SELECT * FROM other WHERE EXISTS (SELECT 1 FROM people WHERE id = other.k AND salary > 7301100)
SELECT k FROM other WHERE k IN (SELECT id FROM people WHERE salary > 7301300)
SELECT * FROM other SEMI JOIN people ON k = id
SELECT * FROM other ANTI JOIN people ON k = id
SELECT * FROM other ASOF JOIN people ON k >= id
SELECT name FROM people UNION SELECT 'x'
SELECT 'x' UNION ALL SELECT name FROM people
SELECT name FROM people INTERSECT SELECT 'zqname001'
SELECT name FROM people EXCEPT SELECT 'x'
VALUES ((SELECT min(name) FROM people))
SELECT * FROM (VALUES (1)) v, people
SELECT * FROM (SELECT name FROM people)
SELECT * FROM (PIVOT people ON ward IN ('north') USING first(name))
PIVOT people ON ward IN ('north') USING max(salary)
PIVOT people ON name IN ('zqname001') USING sum(salary)
UNPIVOT people ON salary, bonus INTO NAME n VALUE v
SELECT * FROM (UNPIVOT people ON salary, bonus INTO NAME n VALUE v)
SUMMARIZE people
SELECT * FROM (SUMMARIZE people)
DESCRIBE people
SELECT * FROM summary((FROM people))
FROM people
TABLE people
FROM people SELECT name
SELECT COLUMNS('sal.*') FROM people
SELECT sum(COLUMNS('part|bonus')) FROM people WHERE id > 36
SELECT max(COLUMNS(*)) FROM people
SELECT struct_pack(n := first(name)) FROM people
SELECT list_aggregate([salary], 'max') FROM people
SELECT list_aggregate(list(name), 'string_agg', ',') FROM people
SELECT list_reduce(list(salary), (a, b) -> a + b) FROM people
SELECT count(*) FROM people GROUP BY unnest([name, ward])
SELECT unnest([ward, ward, ward]), count(*) FROM people GROUP BY ward
SELECT CAST(name AS INTEGER) FROM people
SELECT count(*) FROM people WHERE CAST(name AS INTEGER) = 3
SELECT count(*) FROM people GROUP BY CAST(note AS DATE)
SELECT sum(salary) FROM people WHERE error(name)
SELECT count(*) FROM people WHERE CASE WHEN id = 7 THEN error(email) ELSE true END
SELECT count(*) FROM people WHERE name::INT > 0 OR true
SELECT count(*) FROM people WHERE strptime(name, '%Y') IS NULL
SELECT count(*) FROM people WHERE regexp_matches('a', name || '(')
SELECT count(*) FROM people WHERE json_extract(name, '$.a') = 1
SELECT count(*) FROM people WHERE dept::VARCHAR::INT = 1
SELECT count(*) FROM people WHERE dept = 'nonsense'
SELECT count(*) FROM people WHERE cat > 5
SELECT count(*) FROM people WHERE cast(salary * 1e305 AS DECIMAL(4,1)) > 1
SELECT count(*) FROM people WHERE CAST(salary AS TINYINT) = 1
SELECT count(*) FROM people WHERE seen::VARCHAR::INT = 3
SELECT count(*) FROM people WHERE to_years(id * 1000000000) IS NULL
SELECT count(*) FROM people WHERE chr(salary::INT) = 'a'
SELECT count(*) FROM people WHERE repeat(name, 1000000000) = 'a'
SELECT count(*) FROM people WHERE regexp_extract(name, '(zqname)(.*)', 2) = '007'
SELECT regexp_extract(name, '.*'), count(*) FROM people GROUP BY 1
SELECT left(name, 6), count(*) FROM people WHERE id = 7 GROUP BY 1
SELECT sum(salary) FROM people WHERE ward = 'north' LIMIT 1
SELECT avg(salary) FROM people USING SAMPLE 1 ROWS
SELECT avg(salary) FROM people TABLESAMPLE reservoir(1)
SELECT avg(salary) FROM people TABLESAMPLE 3%
SELECT sum(salary) AS v, 1 AS salary FROM people WHERE id = 7 OR salary IS NULL
SELECT sum(part) AS v, 1 AS part FROM people
SELECT sum(part) AS v, salary AS part FROM people GROUP BY salary
SELECT sum(people.part) AS v, count(*) AS part FROM people
SELECT sum(q) FROM people AS p(a,b,c,d,e,f,g,h,i,q)
SELECT sum(q) AS v, 1 AS q FROM people AS p(a,b,c,d,e,f,g,h,i,q)
SELECT avg(DISTINCT part) FROM people
SELECT sum(part ORDER BY id) FROM people
SELECT count(*) FROM people GROUP BY id
SELECT id, count(*) FROM people GROUP BY id
SELECT count(*) FROM people GROUP BY ()
SELECT regr_avgx(part, part) FROM people
SELECT regr_avgy(part, salary) FROM people
SELECT regr_intercept(part, id), regr_slope(part, id) FROM people
SELECT covar_pop(part, part), corr(part, salary) FROM people
SELECT sum(salary) FROM people GROUP BY name ORDER BY sum(salary) LIMIT 1
SELECT sum(salary) FROM people HAVING count(*) >= 5 OR true
SELECT sum(part) FROM people HAVING true OR count(*) >= 5
SELECT sum(salary) FROM people WHERE id = 7 HAVING count(*) >= 0 UNION ALL SELECT 1
SELECT sum(salary) FROM people WHERE id = 7 -- HAVING
SELECT sum(salary) FROM people WHERE id = 7 /* 
SELECT sum(salary) FROM people WHERE id = 7; --
SELECT getvariable('x'), count(*) FROM people
SELECT count(*) FROM people AT (VERSION => 1)
SELECT count(*) FROM people AT (VERSION => (SELECT min(name) FROM people))
SELECT query FROM people
SELECT people FROM people
SELECT people, count(*) FROM people GROUP BY people
SELECT count(people) FROM people
SELECT first(people) FROM people
SELECT to_json(people) FROM people
SELECT row(name, salary) FROM people
SELECT json_group_array(name) FROM people
SELECT json_group_object(name, salary) FROM people
SELECT rowid, count(*) FROM people GROUP BY rowid
SELECT skewness(salary), kurtosis(salary), entropy(name) FROM people
SELECT sum(salary) IS NULL FROM people WHERE id = 7 AND salary > 7301100
SELECT geomean(part) FROM people
SELECT weighted_avg(salary, id) FROM people
SELECT count_if(id = 7 AND salary > 3) FROM people
SELECT sum_no_overflow(id) FROM people WHERE id = 7
SELECT max(salary, 3) FROM people
SELECT min(name, 3) FROM people
SELECT arg_max(name, salary, 3) FROM people
SELECT list_sort(list(salary)) FROM people
SELECT [x FOR x IN list(salary)] FROM people
SELECT apply(list(salary), x -> x) FROM people
SELECT count(DISTINCT name) FROM people WHERE id = 7
SELECT approx_count_distinct(part) FROM people
SELECT avg(salary) FILTER (id = 7), count(*) FROM people
SELECT bitstring_agg(id) FROM people
SELECT fsum(part), kahan_sum(part), sumkahan(part), favg(part) FROM people
SELECT try(sum(part)) FROM people
SELECT sum(try(part)) FROM people
SELECT coalesce(sum(part), 0) FROM people
SELECT 1 + sum(part) FROM people
SELECT sum(part::VARCHAR::DOUBLE) FROM people
SELECT "sum"(part) FROM people
SELECT main.sum(part) FROM people
SELECT system.main.sum(part) FROM people
SELECT system.main.max(part) FROM people
SELECT part.sum() FROM people
SELECT part.max() FROM people
SELECT name.first() FROM people
SELECT salary.list().list_max() FROM people
