-- A store of format 1 with two runs, as `iterdump` gives it; written by the version that had this format.
PRAGMA application_id = 1398035019;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
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
INSERT INTO "nodes" VALUES('v1run1',0,NULL,'root','torch','','{"id": 0, "parent": null, "role": "root", "candidate": {"source": "import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n", "dialect": "torch", "class_name": "Model"}, "plan": null}');
INSERT INTO "nodes" VALUES('v1run1',1,0,'code','raw','Fuse','{"id": 1, "parent": 0, "role": "code", "candidate": {"source": "x = ''\ud800''", "dialect": "raw", "class_name": "ModelNew"}, "plan": {"title": "Fuse", "advice": "Do it.", "anchors": [], "annotated_source": "", "strategy": "", "parameters": [], "expected_saving_ms": null}}');
INSERT INTO "nodes" VALUES('v1run1',2,1,'debug','raw','Fuse','{"id": 2, "parent": 1, "role": "debug", "candidate": {"source": "# 2", "dialect": "raw", "class_name": "ModelNew"}, "plan": {"title": "Fuse", "advice": "Do it.", "anchors": [], "annotated_source": "", "strategy": "", "parameters": [], "expected_saving_ms": null}}');
INSERT INTO "nodes" VALUES('v1run2',0,NULL,'root','torch','','{"id": 0, "parent": null, "role": "root", "candidate": {"source": "import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n", "dialect": "torch", "class_name": "Model"}, "plan": null}');
INSERT INTO "nodes" VALUES('v1run2',1,0,'code','raw','Fuse','{"id": 1, "parent": 0, "role": "code", "candidate": {"source": "x = ''\ud800''", "dialect": "raw", "class_name": "ModelNew"}, "plan": {"title": "Fuse", "advice": "Do it.", "anchors": [], "annotated_source": "", "strategy": "", "parameters": [], "expected_saving_ms": null}}');
INSERT INTO "nodes" VALUES('v1run2',2,1,'debug','raw','Fuse','{"id": 2, "parent": 1, "role": "debug", "candidate": {"source": "# 2", "dialect": "raw", "class_name": "ModelNew"}, "plan": {"title": "Fuse", "advice": "Do it.", "anchors": [], "annotated_source": "", "strategy": "", "parameters": [], "expected_saving_ms": null}}');
CREATE TABLE rejections (
        number INTEGER PRIMARY KEY,
        key TEXT NOT NULL,
        wire TEXT NOT NULL
    );
INSERT INTO "rejections" VALUES(1,'/project/model.py::Model','{"run_id": "v1run1", "node": 1, "reason": "too long", "title": "Fuse", "strategy": "", "when": "2026-01-03T00:00:00+00:00"}');
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
INSERT INTO "runs" VALUES('v1run1','/project/model.py::Model','20cd64e93197bb98464cd6818636c1716f3ee6d88764759b7fa81d36c6626cdd','playbook','finished','open',1,'2026-01-01T00:00:00+00:00','',NULL,NULL,NULL,'{"id": "v1run1", "problem": {"path": "/project/model.py", "qualname": "Model", "text": "import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n", "slice": {"text": "import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n", "line_map": [0, 1, 2, 3, 4]}, "class_span": {"start": 3, "end": 4}, "inputs": {"source": "none", "inputs_function": null, "init_function": null, "table": {}, "table_path": null}, "mode": "eval", "device": "auto"}, "seed": 7, "model": "playbook", "budget": {"attempts": 3, "seconds": null}, "state": "finished", "message": "2.00x as fast as eager.", "created": "2026-01-01T00:00:00+00:00", "finished": "", "reference": {"environment": {"device": "a CPU", "device_type": "cpu", "python": "3.11", "interpreter": "/usr/bin/python3", "torch": "2.13", "cuda": null, "driver": null, "compiler": null, "threads": 1, "dtypes": [], "shapes": [], "isolation": "process"}, "baselines": {"eager": {"median_ms": 10.0, "low_ms": 9.9, "high_ms": 10.1, "n": 100}, "compile": null, "compile_message": ""}, "outputs": [], "notes": [], "profile": null}, "best": 1, "decision": "open", "settings": {"policy": "epsilon-greedy", "epsilon": 0.3, "root_children": 5, "dead_branch_children": 3, "leaderboard_size": 2, "window_size": 5, "attempts": 3, "in_flight": 1, "fault_limit": 3, "seed": 7}}');
INSERT INTO "runs" VALUES('v1run2','/project/model.py::Model','20cd64e93197bb98464cd6818636c1716f3ee6d88764759b7fa81d36c6626cdd','playbook','cancelled','open',NULL,'2026-01-02T00:00:00+00:00','',NULL,NULL,NULL,'{"id": "v1run2", "problem": {"path": "/project/model.py", "qualname": "Model", "text": "import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n", "slice": {"text": "import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n", "line_map": [0, 1, 2, 3, 4]}, "class_span": {"start": 3, "end": 4}, "inputs": {"source": "none", "inputs_function": null, "init_function": null, "table": {}, "table_path": null}, "mode": "eval", "device": "auto"}, "seed": 7, "model": "playbook", "budget": {"attempts": 3, "seconds": null}, "state": "cancelled", "message": "", "created": "2026-01-02T00:00:00+00:00", "finished": "", "reference": {"environment": {"device": "a CPU", "device_type": "cpu", "python": "3.11", "interpreter": "/usr/bin/python3", "torch": "2.13", "cuda": null, "driver": null, "compiler": null, "threads": 1, "dtypes": [], "shapes": [], "isolation": "process"}, "baselines": {"eager": {"median_ms": 10.0, "low_ms": 9.9, "high_ms": 10.1, "n": 100}, "compile": null, "compile_message": ""}, "outputs": [], "notes": [], "profile": null}, "best": null, "decision": "open", "settings": {"policy": "epsilon-greedy", "epsilon": 0.3, "root_children": 5, "dead_branch_children": 3, "leaderboard_size": 2, "window_size": 5, "attempts": 3, "in_flight": 1, "fault_limit": 3, "seed": 7}}');
CREATE TABLE states (
        run_id TEXT PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
        rng_state TEXT NOT NULL DEFAULT '',
        touched REAL NOT NULL
    );
INSERT INTO "states" VALUES('v1run1','state of v1run1',1795289534.12599);
INSERT INTO "states" VALUES('v1run2','state of v1run2',1.79528953412913322451e+09);
CREATE TABLE verdicts (
        run_id TEXT NOT NULL,
        node INTEGER NOT NULL,
        status TEXT NOT NULL,
        runtime_ms REAL,
        wire TEXT NOT NULL,
        PRIMARY KEY (run_id, node),
        FOREIGN KEY (run_id, node) REFERENCES nodes (run_id, id) ON DELETE CASCADE
    );
INSERT INTO "verdicts" VALUES('v1run1',0,'OK',10.0,'{"status": "OK", "message": "the reference", "line": null, "compiler": [], "log": "", "errors": null, "runtime": {"median_ms": 10.0, "low_ms": 9.9, "high_ms": 10.1, "n": 100}, "speedup_vs_eager": null, "speedup_vs_compile": null, "eager": null, "compiled": null, "weights_loaded": true, "environment": {"device": "a CPU", "device_type": "cpu", "python": "3.11", "interpreter": "/usr/bin/python3", "torch": "2.13", "cuda": null, "driver": null, "compiler": null, "threads": 1, "dtypes": [], "shapes": [], "isolation": "process"}, "stages_s": [], "profile": null, "notes": []}');
INSERT INTO "verdicts" VALUES('v1run1',1,'OK',5.0,'{"status": "OK", "message": "", "line": null, "compiler": [], "log": "", "errors": null, "runtime": {"median_ms": 5.0, "low_ms": 4.9, "high_ms": 5.1, "n": 100}, "speedup_vs_eager": {"value": 2.0, "low": 1.9, "high": 2.1}, "speedup_vs_compile": null, "eager": null, "compiled": null, "weights_loaded": true, "environment": null, "stages_s": [], "profile": null, "notes": []}');
INSERT INTO "verdicts" VALUES('v1run1',2,'COMPILE_ERROR',NULL,'{"status": "COMPILE_ERROR", "message": "no", "line": null, "compiler": [], "log": "", "errors": null, "runtime": null, "speedup_vs_eager": null, "speedup_vs_compile": null, "eager": null, "compiled": null, "weights_loaded": true, "environment": null, "stages_s": [], "profile": null, "notes": []}');
INSERT INTO "verdicts" VALUES('v1run2',0,'OK',10.0,'{"status": "OK", "message": "the reference", "line": null, "compiler": [], "log": "", "errors": null, "runtime": {"median_ms": 10.0, "low_ms": 9.9, "high_ms": 10.1, "n": 100}, "speedup_vs_eager": null, "speedup_vs_compile": null, "eager": null, "compiled": null, "weights_loaded": true, "environment": {"device": "a CPU", "device_type": "cpu", "python": "3.11", "interpreter": "/usr/bin/python3", "torch": "2.13", "cuda": null, "driver": null, "compiler": null, "threads": 1, "dtypes": [], "shapes": [], "isolation": "process"}, "stages_s": [], "profile": null, "notes": []}');
INSERT INTO "verdicts" VALUES('v1run2',1,'OK',5.0,'{"status": "OK", "message": "", "line": null, "compiler": [], "log": "", "errors": null, "runtime": {"median_ms": 5.0, "low_ms": 4.9, "high_ms": 5.1, "n": 100}, "speedup_vs_eager": {"value": 2.0, "low": 1.9, "high": 2.1}, "speedup_vs_compile": null, "eager": null, "compiled": null, "weights_loaded": true, "environment": null, "stages_s": [], "profile": null, "notes": []}');
INSERT INTO "verdicts" VALUES('v1run2',2,'COMPILE_ERROR',NULL,'{"status": "COMPILE_ERROR", "message": "no", "line": null, "compiler": [], "log": "", "errors": null, "runtime": null, "speedup_vs_eager": null, "speedup_vs_compile": null, "eager": null, "compiled": null, "weights_loaded": true, "environment": null, "stages_s": [], "profile": null, "notes": []}');
CREATE INDEX runs_by_key ON runs (key, created);
CREATE INDEX runs_by_state ON runs (state);
CREATE INDEX rejections_by_key ON rejections (key);
COMMIT;
