-- A store of format 3 with one run, as `iterdump` gives it; written by the version that had this format.
PRAGMA application_id = 1398035019;
PRAGMA user_version = 3;
BEGIN TRANSACTION;
CREATE TABLE exchange_texts (
        exchange INTEGER NOT NULL REFERENCES exchanges (number) ON DELETE CASCADE,
        part TEXT NOT NULL,
        digest TEXT NOT NULL REFERENCES texts (digest),
        PRIMARY KEY (exchange, part)
    );
CREATE TABLE exchanges (
        number INTEGER PRIMARY KEY,
        run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        attempt INTEGER NOT NULL,
        role TEXT NOT NULL,
        ordinal INTEGER NOT NULL,
        model TEXT NOT NULL,
        stop TEXT NOT NULL,
        input_tokens INTEGER NOT NULL,
        cache_write_tokens INTEGER NOT NULL,
        cache_read_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL,
        dollars REAL,
        latency_s REAL,
        answered TEXT NOT NULL,
        wire TEXT NOT NULL,
        UNIQUE (run_id, attempt, role, ordinal)
    );
CREATE TABLE losses (
        number INTEGER PRIMARY KEY,
        run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        attempt INTEGER NOT NULL,
        role TEXT NOT NULL,
        ordinal INTEGER NOT NULL,
        model TEXT NOT NULL,
        input_tokens INTEGER NOT NULL,
        cache_write_tokens INTEGER NOT NULL,
        cache_read_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL,
        dollars REAL,
        ended TEXT NOT NULL,
        wire TEXT NOT NULL
    );
INSERT INTO "losses" VALUES(1,'v3run1',2,'code',0,'claude',90,10,200,30,0.125,'2026-01-02T03:06:00+00:00','{"attempt": 2, "role": "code", "ordinal": 0, "model": "claude", "usage": {"input_tokens": 90, "cache_write_tokens": 10, "cache_read_tokens": 200, "output_tokens": 30}, "dollars": 0.125, "when": "2026-01-02T03:06:00+00:00", "why": "cancelled"}');
CREATE TABLE nodes (
        run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        id INTEGER NOT NULL,
        parent INTEGER,
        role TEXT NOT NULL,
        dialect TEXT NOT NULL,
        title TEXT NOT NULL,
        wire TEXT NOT NULL,
        PRIMARY KEY (run_id, id)
    );
INSERT INTO "nodes" VALUES('v3run1',0,NULL,'root','torch','','{"id": 0, "parent": null, "role": "root", "candidate": {"source": "import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n", "dialect": "torch", "class_name": "Model", "remark": "", "summary": ""}, "plan": null}');
INSERT INTO "nodes" VALUES('v3run1',1,0,'code','torch','Fuse the gate','{"id": 1, "parent": 0, "role": "code", "candidate": {"source": "class ModelNew: ...\n", "dialect": "torch", "class_name": "ModelNew", "remark": "", "summary": ""}, "plan": {"title": "Fuse the gate", "advice": "Six passes become one.", "anchors": [], "annotated_source": "", "strategy": "", "parameters": [], "lens": "", "remark": "", "expected_saving_ms": null}}');
INSERT INTO "nodes" VALUES('v3run1',2,1,'debug','raw','Fuse the gate','{"id": 2, "parent": 1, "role": "debug", "candidate": {"source": "# repair\n", "dialect": "raw", "class_name": "ModelNew", "remark": "", "summary": ""}, "plan": {"title": "Fuse the gate", "advice": "Six passes become one.", "anchors": [], "annotated_source": "", "strategy": "", "parameters": [], "lens": "", "remark": "", "expected_saving_ms": null}}');
CREATE TABLE rejections (
        number INTEGER PRIMARY KEY,
        key TEXT NOT NULL,
        wire TEXT NOT NULL
    );
CREATE TABLE runs (
        id TEXT PRIMARY KEY,
        key TEXT NOT NULL,
        digest TEXT NOT NULL,
        model TEXT NOT NULL,
        state TEXT NOT NULL,
        decision TEXT NOT NULL,
        best INTEGER,
        created TEXT NOT NULL,
        finished TEXT NOT NULL,
        owner_pid INTEGER,
        owner_started TEXT,
        owner_place TEXT,
        wire TEXT NOT NULL
    );
INSERT INTO "runs" VALUES('v3run1','/home/ada/code/net/model.py::Model','meaning 3.11:caa1a134e8d2b3d73db3faffc552823984cd24a0739b7c12a0c658184b246e16','claude','finished','open',1,'2026-01-02T03:04:05+00:00','',NULL,NULL,NULL,'{"id": "v3run1", "problem": {"path": "/home/ada/code/net/model.py", "qualname": "Model", "text": "import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n", "slice": {"text": "import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n", "line_map": [0, 1, 2, 3, 4]}, "class_span": {"start": 3, "end": 4}, "inputs": {"source": "none", "inputs_function": null, "init_function": null, "table": {}, "table_path": null}, "mode": "eval", "device": "auto"}, "seed": 0, "model": "claude", "budget": {"attempts": 5, "seconds": null, "tokens": null, "dollars": null}, "state": "finished", "message": "2.00x as fast.", "created": "2026-01-02T03:04:05+00:00", "finished": "", "reference": {"environment": {"device": "a CPU", "device_type": "cpu", "python": "3.11", "interpreter": "/home/ada/code/.venv/bin/python", "torch": "2.13", "cuda": null, "driver": null, "compiler": null, "threads": 1, "dtypes": [], "shapes": [], "isolation": "process", "gradients": false}, "baselines": {"eager": {"median_ms": 10.0, "low_ms": 9.9, "high_ms": 10.1, "n": 100}, "compile": null, "compile_message": "", "max_autotune": null, "max_autotune_message": ""}, "outputs": [], "notes": [], "profile": null}, "best": 1, "decision": "open", "ended_by": null, "heard": 0, "settings": {}, "agents": {}}');
CREATE TABLE states (
        run_id TEXT PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
        rng_state TEXT NOT NULL DEFAULT '',
        touched REAL NOT NULL
    );
INSERT INTO "states" VALUES('v3run1','state of v3run1',1.79559502639381575583e+09);
CREATE TABLE steerings (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        kind TEXT NOT NULL,
        node INTEGER,
        said TEXT NOT NULL,
        wire TEXT NOT NULL
    );
CREATE TABLE texts (
        digest TEXT PRIMARY KEY,
        body BLOB NOT NULL
    );
CREATE TABLE verdicts (
        run_id TEXT NOT NULL,
        node INTEGER NOT NULL,
        status TEXT NOT NULL,
        runtime_ms REAL,
        wire TEXT NOT NULL,
        PRIMARY KEY (run_id, node),
        FOREIGN KEY (run_id, node) REFERENCES nodes (run_id, id) ON DELETE CASCADE
    );
INSERT INTO "verdicts" VALUES('v3run1',0,'OK',10.0,'{"status": "OK", "message": "the reference", "line": null, "compiler": [], "log": "", "errors": null, "runtime": {"median_ms": 10.0, "low_ms": 9.9, "high_ms": 10.1, "n": 100}, "speedup_vs_eager": null, "speedup_without_gradients": null, "device_share": null, "speedup_vs_compile": null, "speedup_vs_max_autotune": null, "eager": null, "compiled": null, "max_autotuned": null, "weights_loaded": true, "environment": {"device": "a CPU", "device_type": "cpu", "python": "3.11", "interpreter": "/home/ada/code/.venv/bin/python", "torch": "2.13", "cuda": null, "driver": null, "compiler": null, "threads": 1, "dtypes": [], "shapes": [], "isolation": "process", "gradients": false}, "stages_s": [], "failed_in": null, "profile": null, "notes": []}');
INSERT INTO "verdicts" VALUES('v3run1',1,'OK',5.0,'{"status": "OK", "message": "", "line": null, "compiler": [], "log": "", "errors": null, "runtime": {"median_ms": 5.0, "low_ms": 4.9, "high_ms": 5.1, "n": 100}, "speedup_vs_eager": {"value": 2.0, "low": 1.9, "high": 2.1}, "speedup_without_gradients": null, "device_share": null, "speedup_vs_compile": null, "speedup_vs_max_autotune": null, "eager": null, "compiled": null, "max_autotuned": null, "weights_loaded": true, "environment": {"device": "a CPU", "device_type": "cpu", "python": "3.11", "interpreter": "/home/ada/code/.venv/bin/python", "torch": "2.13", "cuda": null, "driver": null, "compiler": null, "threads": 1, "dtypes": [], "shapes": [], "isolation": "process", "gradients": false}, "stages_s": [], "failed_in": null, "profile": null, "notes": []}');
INSERT INTO "verdicts" VALUES('v3run1',2,'COMPILE_ERROR',NULL,'{"status": "COMPILE_ERROR", "message": "expected '';''", "line": null, "compiler": [], "log": "-I/home/ada/include /home/ada/code/net/k.cpp:3: error", "errors": null, "runtime": null, "speedup_vs_eager": null, "speedup_without_gradients": null, "device_share": null, "speedup_vs_compile": null, "speedup_vs_max_autotune": null, "eager": null, "compiled": null, "max_autotuned": null, "weights_loaded": true, "environment": null, "stages_s": [], "failed_in": null, "profile": null, "notes": []}');
CREATE INDEX runs_by_key ON runs (key, created);
CREATE INDEX runs_by_state ON runs (state);
CREATE INDEX rejections_by_key ON rejections (key);
CREATE INDEX exchange_texts_by_digest ON exchange_texts (digest);
CREATE INDEX steerings_by_run ON steerings (run_id, number);
CREATE INDEX losses_by_run ON losses (run_id, attempt);
DELETE FROM "sqlite_sequence";
COMMIT;
