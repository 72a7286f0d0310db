// Every statement that a graph server is sent. A line `// :: name` begins one; a name may stand for one dialect
// only, as `name@dialect`. Labels, types and property names are written here and never come from data.
//
// (:PegasMemory:Atom|CodeSymbol|Episode|Procedure|Entity {uid, instance, tenant, id, kind, revision, generation,
//                                                         type, shown_as, name, names, settled})
// -[:RELATES {uid, instance, tenant, id, kind, confidence, source, inferred, revision, generation}]->
// (:PegasInstance {uid, token, writes, filling, complete})   one for each installation: the fence
//
// Why read, decide, then CREATE, and no MERGE: a relationship MERGE makes duplicates under concurrency, and walks
// all the edges of a hub. All writers of an installation take turns on its fence, so what was read still holds.

// --- indexes and constraints ------------------------------------------------------------------------

// :: unique_node@memgraph
CREATE CONSTRAINT ON (n:PegasMemory) ASSERT n.uid IS UNIQUE

// :: unique_node@neo4j
CREATE CONSTRAINT pegas_node IF NOT EXISTS FOR (n:PegasMemory) REQUIRE n.uid IS UNIQUE

// :: unique_fence@memgraph
CREATE CONSTRAINT ON (f:PegasInstance) ASSERT f.uid IS UNIQUE

// :: unique_fence@neo4j
CREATE CONSTRAINT pegas_fence IF NOT EXISTS FOR (f:PegasInstance) REQUIRE f.uid IS UNIQUE

// :: node_index@memgraph
CREATE INDEX pegas_node IF NOT EXISTS FOR (n:PegasMemory) ON (n.uid)

// Memgraph before the form with names.
// :: node_index_old@memgraph
CREATE INDEX ON :PegasMemory(uid)

// :: edge_index@memgraph
CREATE INDEX pegas_edge IF NOT EXISTS FOR ()-[e:RELATES]-() ON (e.uid)

// :: edge_index_old@memgraph
CREATE EDGE INDEX ON :RELATES(uid)

// :: edge_index@neo4j
CREATE INDEX pegas_edge IF NOT EXISTS FOR ()-[e:RELATES]-() ON (e.uid)

// --- the fence --------------------------------------------------------------------------------------

// :: make_fence
MERGE (f:PegasInstance {uid: $instance})
ON CREATE SET f.token = 0, f.writes = 0, f.complete = false, f.filling = 0
SET f.writes = f.writes + 1
RETURN f.token AS token, f.complete AS complete, f.filling AS filling

// A write that changes something even when the token stays, so that two transactions always collide here.
// :: take_fence
MATCH (f:PegasInstance {uid: $instance})
WHERE f.token <= $token
SET f.token = $token, f.writes = f.writes + 1
RETURN f.token AS token

// :: mark_filling
MATCH (f:PegasInstance {uid: $instance})
SET f.filling = $generation

// :: mark_complete
MATCH (f:PegasInstance {uid: $instance})
SET f.complete = true

// :: is_complete
MATCH (f:PegasInstance {uid: $instance})
RETURN f.complete AS complete

// --- nodes ------------------------------------------------------------------------------------------

// :: known_nodes
UNWIND $uids AS uid
MATCH (n:PegasMemory {uid: uid})
RETURN uid, n.revision AS revision, n.generation AS generation, n.settled AS settled

// :: create_atom
UNWIND $rows AS row
CREATE (n:PegasMemory:Atom)
SET n = row

// :: create_symbol
UNWIND $rows AS row
CREATE (n:PegasMemory:CodeSymbol)
SET n = row

// :: create_episode
UNWIND $rows AS row
CREATE (n:PegasMemory:Episode)
SET n = row

// :: create_procedure
UNWIND $rows AS row
CREATE (n:PegasMemory:Procedure)
SET n = row

// :: create_entity
UNWIND $rows AS row
CREATE (n:PegasMemory:Entity)
SET n = row

// :: change_nodes
UNWIND $rows AS row
MATCH (n:PegasMemory {uid: row.uid})
SET n += row

// :: settle_nodes
UNWIND $uids AS uid
MATCH (n:PegasMemory {uid: uid})
SET n.settled = true

// :: drop_edges_of
UNWIND $uids AS uid
MATCH (n:PegasMemory {uid: uid})-[e:RELATES]-()
WHERE e.instance = $instance
WITH DISTINCT e LIMIT $limit
DELETE e
RETURN count(*) AS dropped

// Nodes of ours that another program has tied something to.
// :: tied_nodes
UNWIND $uids AS uid
MATCH (n:PegasMemory {uid: uid})--()
RETURN DISTINCT uid

// :: empty_nodes
UNWIND $uids AS uid
MATCH (n:PegasMemory {uid: uid})
SET n = {}

// :: delete_nodes
UNWIND $uids AS uid
MATCH (n:PegasMemory {uid: uid})
DELETE n

// :: scan_nodes
MATCH (n:PegasMemory)
WHERE n.uid > $after AND n.uid < $until
RETURN n.uid AS uid, n.tenant AS tenant, n.kind AS kind, n.id AS id, n.revision AS revision,
       n.generation AS generation, n.settled AS settled
ORDER BY uid LIMIT $limit

// :: unwanted_nodes
MATCH (n:PegasMemory)
WHERE n.uid > $after AND n.uid < $until AND n.generation < $generation AND ($tenant = '' OR n.tenant = $tenant)
RETURN n.uid AS uid LIMIT $limit

// --- edges ------------------------------------------------------------------------------------------

// Memgraph looks up one key of an edge index for each row; the other looks up a whole list, and only that.
// :: known_edges@memgraph
UNWIND $uids AS uid
MATCH (a)-[e:RELATES {uid: uid}]->(b)
RETURN uid, a.uid AS src, b.uid AS dst, e.revision AS revision, e.generation AS generation

// :: known_edges@neo4j
MATCH (a)-[e:RELATES]->(b)
WHERE e.uid IN $uids
RETURN e.uid AS uid, a.uid AS src, b.uid AS dst, e.revision AS revision, e.generation AS generation

// :: create_edges
UNWIND $rows AS row
MATCH (a:PegasMemory {uid: row.src})
MATCH (b:PegasMemory {uid: row.dst})
CREATE (a)-[e:RELATES]->(b)
SET e = row.values

// :: delete_edges@memgraph
UNWIND $uids AS uid
MATCH ()-[e:RELATES {uid: uid}]->()
DELETE e

// :: delete_edges@neo4j
MATCH ()-[e:RELATES]->()
WHERE e.uid IN $uids
DELETE e

// :: scan_edges
MATCH ()-[e:RELATES]->()
WHERE e.uid > $after AND e.uid < $until
RETURN e.uid AS uid, e.tenant AS tenant, e.kind AS kind, e.id AS id, e.revision AS revision,
       e.generation AS generation, true AS settled
ORDER BY uid LIMIT $limit

// :: unwanted_edges
MATCH ()-[e:RELATES]->()
WHERE e.uid > $after AND e.uid < $until AND e.generation < $generation AND ($tenant = '' OR e.tenant = $tenant)
RETURN e.uid AS uid LIMIT $limit

// --- questions --------------------------------------------------------------------------------------

// :: edges_out
UNWIND $uids AS uid
MATCH (n:PegasMemory {uid: uid})-[e:RELATES]->()
WHERE e.instance = $instance AND e.tenant = $tenant AND e.id > $after
  AND (size($kinds) = 0 OR e.kind IN $kinds) AND ($inferred OR NOT e.inferred)
WITH DISTINCT e ORDER BY e.id LIMIT $limit
RETURN e.id AS id, startNode(e).kind AS src_kind, startNode(e).id AS src, endNode(e).kind AS dst_kind,
       endNode(e).id AS dst, e.kind AS kind, e.confidence AS confidence, e.source AS source,
       e.inferred AS inferred, e.revision AS revision
ORDER BY id

// :: edges_in
UNWIND $uids AS uid
MATCH (n:PegasMemory {uid: uid})<-[e:RELATES]-()
WHERE e.instance = $instance AND e.tenant = $tenant AND e.id > $after
  AND (size($kinds) = 0 OR e.kind IN $kinds) AND ($inferred OR NOT e.inferred)
WITH DISTINCT e ORDER BY e.id LIMIT $limit
RETURN e.id AS id, startNode(e).kind AS src_kind, startNode(e).id AS src, endNode(e).kind AS dst_kind,
       endNode(e).id AS dst, e.kind AS kind, e.confidence AS confidence, e.source AS source,
       e.inferred AS inferred, e.revision AS revision
ORDER BY id

// :: edges_both
UNWIND $uids AS uid
MATCH (n:PegasMemory {uid: uid})-[e:RELATES]-()
WHERE e.instance = $instance AND e.tenant = $tenant AND e.id > $after
  AND (size($kinds) = 0 OR e.kind IN $kinds) AND ($inferred OR NOT e.inferred)
WITH DISTINCT e ORDER BY e.id LIMIT $limit
RETURN e.id AS id, startNode(e).kind AS src_kind, startNode(e).id AS src, endNode(e).kind AS dst_kind,
       endNode(e).id AS dst, e.kind AS kind, e.confidence AS confidence, e.source AS source,
       e.inferred AS inferred, e.revision AS revision
ORDER BY id
