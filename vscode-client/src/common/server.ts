// The server's life: found, started, restarted, told of changed settings.

import * as os from "node:os";
import * as path from "node:path";
import * as vscode from "vscode";
import type { LanguageClient, LanguageClientOptions, Middleware } from "vscode-languageclient/node";
import { parseExecute } from "../features/protocol";
import { redacting } from "./redact";
import { findLaunch, isLaunch, type Launch, type LaunchProblem } from "./launch";
import { interpreters, probeInterpreter } from "./probe";
import { activeInterpreter } from "./python";
import { writeProgram } from "./terminal";
import { interpreterSetting, launchSettings, SECTION, serverSettings } from "./settings";

const STOP_TIMEOUT_MS = 5_000;

/**
 * Notification of the server: the user chose a button of one of its messages, and the command behind it needs the
 * editor's own windows (a diff, a question, a choice). Only the commands that do are taken.
 */
const EXECUTE = "stark/execute";

/** What the features do for the server beyond the protocol; `docs/clients.md` describes it for other editors. */
export interface Features {
  /** Names for `initializationOptions.stark.provides`. */
  readonly provides: readonly string[];
  /** What answers the server's requests, by method. */
  readonly answers: Readonly<Record<string, (params: unknown, token: vscode.CancellationToken) => Promise<unknown>>>;
  /** Texts that the trace must not show. */
  readonly secrets: Iterable<string>;
}

/** What became of the server. */
export type ServerState =
  | { readonly name: "untrusted" | "starting" | "running" | "stopped" }
  /** There is no way to start it. */
  | { readonly name: "missing"; readonly message: string };

export class Server implements vscode.Disposable {
  private client: LanguageClient | undefined;
  /** How it was started last. */
  private launch: Launch | undefined;
  /** Why the last start failed. */
  private problem: LaunchProblem | undefined;
  /** Starts and stops wait for each other. */
  private queue: Promise<void> = Promise.resolve();

  /**
   * @param middleware what the features add to the talk with the server
   * @param features what they answer the server, and what must not be written
   * @param onState told what becomes of it; `starting` with each new start
   * @param heard told of notifications of our own, by method
   */
  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly output: vscode.LogOutputChannel,
    private readonly middleware: Middleware,
    private readonly features: Features,
    private readonly onState: (state: ServerState) => void,
    private readonly heard: Readonly<Record<string, () => void>>,
  ) {}

  get running(): boolean {
    return this.client?.isRunning() ?? false;
  }

  /** Start the server, or start it anew; in a folder that is not trusted nothing is started. */
  restart(): Promise<void> {
    return this.enqueue(async () => {
      await this.stopNow();
      this.problem = undefined;
      if (!vscode.workspace.isTrusted) {
        this.onState({ name: "untrusted" });
        this.output.info("This folder is not trusted yet: the server starts once it is.");
        return;
      }
      this.onState({ name: "starting" });
      const launch = await this.find();
      if (isLaunch(launch)) {
        this.launch = launch;
        await this.startNow(launch);
        await this.offerInTerminals(launch);
      } else {
        this.onState({ name: "missing", message: launch.message });
        this.fail(launch);
      }
    });
  }

  /** Whether the server can be asked for something; where it cannot, the user is told why, and how to mend it. */
  async ready(): Promise<boolean> {
    await this.queue;
    if (!this.running) {
      void this.explain();
    }
    return this.running;
  }

  /** The server's program, where it can be asked for something; where it cannot, the user is told why. */
  async program(): Promise<Launch | undefined> {
    return (await this.ready()) ? this.launch : undefined;
  }

  stop(): Promise<void> {
    return this.enqueue(() => this.stopNow());
  }

  /** Tell the server the settings as they are now. */
  async sendSettings(): Promise<void> {
    if (this.client?.isRunning()) {
      const settings = { [SECTION]: await serverSettings() };
      await this.client.sendNotification("workspace/didChangeConfiguration", { settings });
    }
  }

  /** Ask the server something beyond the protocol; undefined where it does not run. What it refuses is an error. */
  async ask(method: string, params: unknown): Promise<unknown> {
    return this.client?.isRunning() ? this.client.sendRequest(method, params) : undefined;
  }

  /** Tell the server something beyond the protocol; a server that is not running needs not be told. */
  async tell(method: string): Promise<void> {
    if (this.client?.isRunning()) {
      await this.client.sendNotification(method, {});
    }
  }

  dispose(): void {
    void this.stop();
  }

  private enqueue(job: () => Promise<void>): Promise<void> {
    this.queue = this.queue.then(job).catch((error: unknown) => {
      this.output.error(error instanceof Error ? error : String(error));
    });
    return this.queue;
  }

  /** A folder of our own as current folder, so that none of the workspace's plays a part. */
  private async home(): Promise<string> {
    await vscode.workspace.fs.createDirectory(this.context.globalStorageUri);
    return this.context.globalStorageUri.fsPath;
  }

  private find(): Promise<Launch | LaunchProblem> {
    const bundle = this.context.asAbsolutePath("bundled");
    return findLaunch({ ...launchSettings(), bundle, pythons: pythons() }, probeInterpreter);
  }

  private async startNow(launch: Launch): Promise<void> {
    this.output.info(`Starting ${launch.command} ${launch.args.join(" ")}`);
    const options: LanguageClientOptions = {
      documentSelector: [
        { scheme: "file", language: "python" },
        { notebook: "jupyter-notebook", language: "python" },
      ],
      // This client shows a proposal in a diff editor of its own. The settings are asked for by the server.
      initializationOptions: { [SECTION]: { diffView: true, provides: this.features.provides } },
      outputChannel: this.output,
      traceOutputChannel: redacting(this.output, this.features.secrets),
      progressOnInitialization: false,
      middleware: {
        ...this.middleware,
        workspace: {
          // The server asks for its section: it gets the Python extension's interpreter too.
          configuration: async (params, token, next) => {
            const answers = await next(params, token);
            if (!Array.isArray(answers)) {
              return answers;
            }
            return Promise.all(
              params.items.map(async ({ section, scopeUri }, i) =>
                section === SECTION
                  ? serverSettings(scopeUri === undefined ? undefined : vscode.Uri.parse(scopeUri))
                  : (answers[i] as unknown),
              ),
            );
          },
          didChangeConfiguration: () => this.sendSettings(),
        },
      },
    };
    const executable = { command: launch.command, args: [...launch.args], options: { cwd: await this.home() } };
    // Most of the extension's code: loaded here, it does not hold up the activation.
    const { LanguageClient, State } = await import("vscode-languageclient/node.js");
    const states = { [State.Starting]: "starting", [State.Running]: "running", [State.Stopped]: "stopped" } as const;
    const client = new LanguageClient(SECTION, "STARK", executable, options);
    this.client = client;
    for (const [method, answer] of Object.entries(this.features.answers)) {
      client.onRequest(method, answer);
    }
    client.onNotification(EXECUTE, (request: unknown) => executeOnBehalf(request));
    for (const [method, heard] of Object.entries(this.heard)) {
      client.onNotification(method, heard);
    }
    client.onDidChangeState(({ newState }) => {
      if (client === this.client) {
        this.onState({ name: states[newState] });
      }
    });
    try {
      await client.start();
    } catch (error) {
      this.output.error(error instanceof Error ? error : String(error));
      this.onState({ name: "stopped" });
      this.fail({ message: `STARK's server did not start (${launch.command}). The output tells why.` });
    }
  }

  private async offerInTerminals(launch: Launch): Promise<void> {
    if (process.platform !== "win32") {
      const folder = path.join(await this.home(), "bin");
      await writeProgram(folder, launch);
      const variables = this.context.environmentVariableCollection;
      variables.description = "`stark-lsp`, unless there is another one";
      variables.append("PATH", `:${folder}`);
    }
  }

  private async stopNow(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    if (client === undefined) {
      return;
    }
    try {
      await client.stop(STOP_TIMEOUT_MS);
    } catch (error) {
      this.output.warn(`The server did not stop in an orderly way: ${String(error)}`);
    }
    await client.dispose();
  }

  private fail(problem: LaunchProblem): void {
    this.problem = problem;
    this.output.error(problem.message);
    // Not awaited: a message waits for the user, and a restart must not wait for that.
    void this.explain();
  }

  /** Say why the server does not run. */
  private async explain(): Promise<void> {
    const trust = "Manage trust";
    const interpreter = "Choose interpreter";
    const restart = "Restart server";
    const output = "Show output";
    const trusted = vscode.workspace.isTrusted;
    const message = trusted
      ? (this.problem?.message ?? "STARK's server has stopped.")
      : "STARK does nothing in a folder that is not trusted, since optimizing a module runs it.";
    const buttons = trusted ? [this.problem === undefined ? restart : interpreter, output] : [trust];
    const commands: Record<string, string> = {
      [trust]: "workbench.trust.manage",
      [interpreter]: "stark.chooseInterpreter",
      [restart]: "stark.restart",
      [output]: "stark.showOutput",
    };
    const choice = await vscode.window.showWarningMessage(message, ...buttons);
    const command = commands[choice ?? ""];
    if (command !== undefined) {
      await vscode.commands.executeCommand(command);
    }
  }
}

/** The interpreters to start the server with; the Python extension takes seconds to wake, so it is asked last. */
async function* pythons(): AsyncGenerator<string> {
  const folders = (vscode.workspace.workspaceFolders ?? []).map((folder) => folder.uri.fsPath);
  const chosen = interpreterSetting();
  if (chosen !== undefined) {
    yield chosen;
  }
  yield* interpreters({ env: process.env, home: os.homedir(), folders });
  const active = await activeInterpreter();
  if (active !== undefined) {
    yield active;
  }
}

async function executeOnBehalf(request: unknown): Promise<void> {
  const wanted = parseExecute(request);
  if (wanted !== undefined) {
    await vscode.commands.executeCommand(wanted.command, ...wanted.arguments);
  }
}
