-- A store of format 2 with two runs, as `iterdump` gives it; written by the version that had this format.
PRAGMA application_id = 1398035019;
PRAGMA user_version = 2;
BEGIN TRANSACTION;
CREATE TABLE exchange_texts (
        exchange INTEGER NOT NULL REFERENCES exchanges (number) ON DELETE CASCADE,
        part TEXT NOT NULL,
        digest TEXT NOT NULL REFERENCES texts (digest),
        PRIMARY KEY (exchange, part)
    );
INSERT INTO "exchange_texts" VALUES(1,'system','43f010c24e7f60f70c6e4057a1ab41f5a187e94a935d90dc1b8545a2850ce350');
INSERT INTO "exchange_texts" VALUES(1,'shared','b7b3249e369d3572383835ac6a49ce57674a214cf75c4f39243b834fc01e0fd4');
INSERT INTO "exchange_texts" VALUES(1,'body','f762821330e881d4553e2e8cba476f1077d1d10cd741b247cf3ea5dc6574f30c');
INSERT INTO "exchange_texts" VALUES(1,'text','6c94683a02bdda38721278e54660a42216fb0f28ea9c4677d0e6f03ebe37b1b5');
INSERT INTO "exchange_texts" VALUES(1,'tool','f33f6bbd6c2b3df0a763e1401bcf6587d0efc24238ae97a54697c29c9b61245b');
INSERT INTO "exchange_texts" VALUES(1,'tool_input','b2f1952d2af0977c240f9419ba09115a5ab613035ce5ffdbd4a223b32dde695f');
INSERT INTO "exchange_texts" VALUES(2,'system','43f010c24e7f60f70c6e4057a1ab41f5a187e94a935d90dc1b8545a2850ce350');
INSERT INTO "exchange_texts" VALUES(2,'shared','b7b3249e369d3572383835ac6a49ce57674a214cf75c4f39243b834fc01e0fd4');
INSERT INTO "exchange_texts" VALUES(2,'body','f762821330e881d4553e2e8cba476f1077d1d10cd741b247cf3ea5dc6574f30c');
INSERT INTO "exchange_texts" VALUES(2,'text','6c94683a02bdda38721278e54660a42216fb0f28ea9c4677d0e6f03ebe37b1b5');
INSERT INTO "exchange_texts" VALUES(2,'tool','f33f6bbd6c2b3df0a763e1401bcf6587d0efc24238ae97a54697c29c9b61245b');
INSERT INTO "exchange_texts" VALUES(2,'tool_input','b2f1952d2af0977c240f9419ba09115a5ab613035ce5ffdbd4a223b32dde695f');
INSERT INTO "exchange_texts" VALUES(3,'system','43f010c24e7f60f70c6e4057a1ab41f5a187e94a935d90dc1b8545a2850ce350');
INSERT INTO "exchange_texts" VALUES(3,'shared','b7b3249e369d3572383835ac6a49ce57674a214cf75c4f39243b834fc01e0fd4');
INSERT INTO "exchange_texts" VALUES(3,'body','f762821330e881d4553e2e8cba476f1077d1d10cd741b247cf3ea5dc6574f30c');
INSERT INTO "exchange_texts" VALUES(3,'text','711a43f0c3b7ea2598bf3d46b4c5b233c78906f48537c9c54b8a9d50ec6d7ca5');
INSERT INTO "exchange_texts" VALUES(3,'tool','f33f6bbd6c2b3df0a763e1401bcf6587d0efc24238ae97a54697c29c9b61245b');
INSERT INTO "exchange_texts" VALUES(3,'tool_input','b2f1952d2af0977c240f9419ba09115a5ab613035ce5ffdbd4a223b32dde695f');
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
INSERT INTO "exchanges" VALUES(1,'v2run1',1,'plan',0,'claude-x','complete',100,20,300,50,0.25,1.5,'2026-01-02T03:05:00+00:00','{"question": {"attempt": 1, "role": "plan", "system": "", "shared": "", "body": "", "tool": null, "model": "claude", "temperature": 0.8, "effort": null, "max_tokens": 16000, "ordinal": 0}, "answer": {"stop": "complete", "text": "", "tool_input": null, "usage": {"input_tokens": 100, "cache_write_tokens": 20, "cache_read_tokens": 300, "output_tokens": 50}, "model": "claude-x", "latency_s": 1.5, "request_id": "", "message": "", "troubles": []}, "dollars": 0.25, "when": "2026-01-02T03:05:00+00:00"}');
INSERT INTO "exchanges" VALUES(2,'v2run1',1,'code',0,'claude-x','complete',100,20,300,50,NULL,1.5,'2026-01-02T03:05:00+00:00','{"question": {"attempt": 1, "role": "code", "system": "", "shared": "", "body": "", "tool": null, "model": "claude", "temperature": 0.8, "effort": null, "max_tokens": 16000, "ordinal": 0}, "answer": {"stop": "complete", "text": "", "tool_input": null, "usage": {"input_tokens": 100, "cache_write_tokens": 20, "cache_read_tokens": 300, "output_tokens": 50}, "model": "claude-x", "latency_s": 1.5, "request_id": "", "message": "", "troubles": []}, "dollars": null, "when": "2026-01-02T03:05:00+00:00"}');
INSERT INTO "exchanges" VALUES(3,'v2run2',1,'plan',0,'claude-x','complete',100,20,300,50,0.25,1.5,'2026-01-02T03:05:00+00:00','{"question": {"attempt": 1, "role": "plan", "system": "", "shared": "", "body": "", "tool": null, "model": "claude", "temperature": 0.8, "effort": null, "max_tokens": 16000, "ordinal": 0}, "answer": {"stop": "complete", "text": "", "tool_input": null, "usage": {"input_tokens": 100, "cache_write_tokens": 20, "cache_read_tokens": 300, "output_tokens": 50}, "model": "claude-x", "latency_s": 1.5, "request_id": "", "message": "", "troubles": []}, "dollars": 0.25, "when": "2026-01-02T03:05:00+00:00"}');
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
INSERT INTO "nodes" VALUES('v2run1',0,NULL,'root','torch','','{"id": 0, "parent": null, "role": "root", "candidate": {"source": "import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n", "dialect": "torch", "class_name": "Model", "remark": ""}, "plan": null}');
INSERT INTO "nodes" VALUES('v2run1',1,0,'code','torch','Fuse the gate','{"id": 1, "parent": 0, "role": "code", "candidate": {"source": "class ModelNew: ...\n", "dialect": "torch", "class_name": "ModelNew", "remark": ""}, "plan": {"title": "Fuse the gate", "advice": "Six passes become one.", "anchors": [], "annotated_source": "", "strategy": "", "parameters": [], "lens": "", "remark": "", "expected_saving_ms": null}}');
INSERT INTO "nodes" VALUES('v2run1',2,1,'debug','raw','Fuse the gate','{"id": 2, "parent": 1, "role": "debug", "candidate": {"source": "# repair\n", "dialect": "raw", "class_name": "ModelNew", "remark": ""}, "plan": {"title": "Fuse the gate", "advice": "Six passes become one.", "anchors": [], "annotated_source": "", "strategy": "", "parameters": [], "lens": "", "remark": "", "expected_saving_ms": null}}');
INSERT INTO "nodes" VALUES('v2run2',0,NULL,'root','torch','','{"id": 0, "parent": null, "role": "root", "candidate": {"source": "import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n", "dialect": "torch", "class_name": "Model", "remark": ""}, "plan": null}');
CREATE TABLE rejections (
        number INTEGER PRIMARY KEY,
        key TEXT NOT NULL,
        wire TEXT NOT NULL
    );
INSERT INTO "rejections" VALUES(1,'/home/ada/code/net/model.py::Model','{"run_id": "v2run1", "node": 1, "reason": "too long", "title": "Fuse", "strategy": "", "when": "2026-01-03T00:00:00+00:00"}');
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
INSERT INTO "runs" VALUES('v2run1','/home/ada/code/net/model.py::Model','20cd64e93197bb98464cd6818636c1716f3ee6d88764759b7fa81d36c6626cdd','claude','finished','open',1,'2026-01-02T03:04:05+00:00','',NULL,NULL,NULL,'{"id": "v2run1", "problem": {"path": "/home/ada/code/net/model.py", "qualname": "Model", "text": "import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n", "slice": {"text": "import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n", "line_map": [0, 1, 2, 3, 4]}, "class_span": {"start": 3, "end": 4}, "inputs": {"source": "none", "inputs_function": null, "init_function": null, "table": {}, "table_path": null}, "mode": "eval", "device": "auto"}, "seed": 0, "model": "claude", "budget": {"attempts": 5, "seconds": null, "tokens": null, "dollars": null}, "state": "finished", "message": "2.00x as fast.", "created": "2026-01-02T03:04:05+00:00", "finished": "", "reference": {"environment": {"device": "a CPU", "device_type": "cpu", "python": "3.11", "interpreter": "/home/ada/code/.venv/bin/python", "torch": "2.13", "cuda": null, "driver": null, "compiler": null, "threads": 1, "dtypes": [], "shapes": [], "isolation": "process"}, "baselines": {"eager": {"median_ms": 10.0, "low_ms": 9.9, "high_ms": 10.1, "n": 100}, "compile": null, "compile_message": "", "max_autotune": null, "max_autotune_message": ""}, "outputs": [], "notes": [], "profile": null}, "best": 1, "decision": "open", "settings": {}, "agents": {}}');
INSERT INTO "runs" VALUES('v2run2','/home/ada/code/net/model.py::Model','20cd64e93197bb98464cd6818636c1716f3ee6d88764759b7fa81d36c6626cdd','claude','cancelled','open',NULL,'2026-01-02T03:04:05+00:00','',NULL,NULL,NULL,'{"id": "v2run2", "problem": {"path": "/home/ada/code/net/model.py", "qualname": "Model", "text": "import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n", "slice": {"text": "import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n", "line_map": [0, 1, 2, 3, 4]}, "class_span": {"start": 3, "end": 4}, "inputs": {"source": "none", "inputs_function": null, "init_function": null, "table": {}, "table_path": null}, "mode": "eval", "device": "auto"}, "seed": 0, "model": "claude", "budget": {"attempts": 5, "seconds": null, "tokens": null, "dollars": null}, "state": "cancelled", "message": "", "created": "2026-01-02T03:04:05+00:00", "finished": "", "reference": null, "best": null, "decision": "open", "settings": {}, "agents": {}}');
CREATE TABLE states (
        run_id TEXT PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
        rng_state TEXT NOT NULL DEFAULT '',
        touched REAL NOT NULL
    );
INSERT INTO "states" VALUES('v2run1','state of v2run1',1.79530598170870470996e+09);
INSERT INTO "states" VALUES('v2run2','',1.79530598171385025975e+09);
CREATE TABLE steerings (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        kind TEXT NOT NULL,
        node INTEGER,
        said TEXT NOT NULL,
        wire TEXT NOT NULL
    );
INSERT INTO "steerings" VALUES(1,'v2run1','pin',1,'2026-01-02T03:05:00+00:00','{"kind": "pin", "node": 1, "text": "", "budget": null, "attempt": 1, "when": "2026-01-02T03:05:00+00:00"}');
INSERT INTO "steerings" VALUES(2,'v2run1','hint',NULL,'','{"kind": "hint", "node": null, "text": "x is contiguous", "budget": null, "attempt": 0, "when": ""}');
INSERT INTO "steerings" VALUES(3,'v2run1','budget',NULL,'','{"kind": "budget", "node": null, "text": "", "budget": {"attempts": 8, "seconds": null, "tokens": null, "dollars": 2.0}, "attempt": 0, "when": ""}');
INSERT INTO "steerings" VALUES(4,'v2run1','pause',NULL,'','{"kind": "pause", "node": null, "text": "", "budget": null, "attempt": 0, "when": ""}');
CREATE TABLE texts (
        digest TEXT PRIMARY KEY,
        body BLOB NOT NULL
    );
INSERT INTO "texts" VALUES('43f010c24e7f60f70c6e4057a1ab41f5a187e94a935d90dc1b8545a2850ce350',X'596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20596F75207772697465206661737420636F64652E20');
INSERT INTO "texts" VALUES('b7b3249e369d3572383835ac6a49ce57674a214cf75c4f39243b834fc01e0fd4',X'54686520636C6173733A20696D706F727420746F7263680A0A0A636C617373204D6F64656C28746F7263682E6E6E2E4D6F64756C65293A0A20202020706173730A');
INSERT INTO "texts" VALUES('f762821330e881d4553e2e8cba476f1077d1d10cd741b247cf3ea5dc6574f30c',X'417474656D70742031');
INSERT INTO "texts" VALUES('6c94683a02bdda38721278e54660a42216fb0f28ea9c4677d0e6f03ebe37b1b5',X'616E737765722031');
INSERT INTO "texts" VALUES('f33f6bbd6c2b3df0a763e1401bcf6587d0efc24238ae97a54697c29c9b61245b',X'7B226E616D65223A20227375626D69745F706C616E222C20226465736372697074696F6E223A202248616E642074686520706C616E20696E2E222C2022736368656D61223A207B2274797065223A20226F626A656374222C202270726F70657274696573223A207B227469746C65223A207B2274797065223A2022737472696E67227D7D7D7D');
INSERT INTO "texts" VALUES('b2f1952d2af0977c240f9419ba09115a5ab613035ce5ffdbd4a223b32dde695f',X'7B227469746C65223A2022696465612031227D');
INSERT INTO "texts" VALUES('711a43f0c3b7ea2598bf3d46b4c5b233c78906f48537c9c54b8a9d50ec6d7ca5',X'68616C6620EDA080');
CREATE TABLE verdicts (
        run_id TEXT NOT NULL,
        node INTEGER NOT NULL,
        status TEXT NOT NULL,
        runtime_ms REAL,
        wire TEXT NOT NULL,
        PRIMARY KEY (run_id, node),
        FOREIGN KEY (run_id, node) REFERENCES nodes (run_id, id) ON DELETE CASCADE
    );
INSERT INTO "verdicts" VALUES('v2run1',0,'OK',10.0,'{"status": "OK", "message": "the reference", "line": null, "compiler": [], "log": "", "errors": null, "runtime": {"median_ms": 10.0, "low_ms": 9.9, "high_ms": 10.1, "n": 100}, "speedup_vs_eager": null, "speedup_vs_compile": null, "speedup_vs_max_autotune": null, "eager": null, "compiled": null, "max_autotuned": null, "weights_loaded": true, "environment": {"device": "a CPU", "device_type": "cpu", "python": "3.11", "interpreter": "/home/ada/code/.venv/bin/python", "torch": "2.13", "cuda": null, "driver": null, "compiler": null, "threads": 1, "dtypes": [], "shapes": [], "isolation": "process"}, "stages_s": [], "profile": null, "notes": []}');
INSERT INTO "verdicts" VALUES('v2run1',1,'OK',5.0,'{"status": "OK", "message": "", "line": null, "compiler": [], "log": "", "errors": null, "runtime": {"median_ms": 5.0, "low_ms": 4.9, "high_ms": 5.1, "n": 100}, "speedup_vs_eager": {"value": 2.0, "low": 1.9, "high": 2.1}, "speedup_vs_compile": null, "speedup_vs_max_autotune": null, "eager": null, "compiled": null, "max_autotuned": null, "weights_loaded": true, "environment": {"device": "a CPU", "device_type": "cpu", "python": "3.11", "interpreter": "/home/ada/code/.venv/bin/python", "torch": "2.13", "cuda": null, "driver": null, "compiler": null, "threads": 1, "dtypes": [], "shapes": [], "isolation": "process"}, "stages_s": [], "profile": null, "notes": []}');
INSERT INTO "verdicts" VALUES('v2run1',2,'COMPILE_ERROR',NULL,'{"status": "COMPILE_ERROR", "message": "expected '';''", "line": null, "compiler": [], "log": "-I/home/ada/include /home/ada/code/net/k.cpp:3: error", "errors": null, "runtime": null, "speedup_vs_eager": null, "speedup_vs_compile": null, "speedup_vs_max_autotune": null, "eager": null, "compiled": null, "max_autotuned": null, "weights_loaded": true, "environment": null, "stages_s": [], "profile": null, "notes": []}');
INSERT INTO "verdicts" VALUES('v2run2',0,'OK',10.0,'{"status": "OK", "message": "the reference", "line": null, "compiler": [], "log": "", "errors": null, "runtime": {"median_ms": 10.0, "low_ms": 9.9, "high_ms": 10.1, "n": 100}, "speedup_vs_eager": null, "speedup_vs_compile": null, "speedup_vs_max_autotune": null, "eager": null, "compiled": null, "max_autotuned": null, "weights_loaded": true, "environment": {"device": "a CPU", "device_type": "cpu", "python": "3.11", "interpreter": "/home/ada/code/.venv/bin/python", "torch": "2.13", "cuda": null, "driver": null, "compiler": null, "threads": 1, "dtypes": [], "shapes": [], "isolation": "process"}, "stages_s": [], "profile": null, "notes": []}');
CREATE INDEX runs_by_key ON runs (key, created);
CREATE INDEX runs_by_state ON runs (state);
CREATE INDEX rejections_by_key ON rejections (key);
CREATE INDEX exchange_texts_by_digest ON exchange_texts (digest);
CREATE INDEX steerings_by_run ON steerings (run_id, number);
INSERT INTO "sqlite_sequence" VALUES('steerings',4);
COMMIT;
