-- STARK in Neovim 0.7 or newer: starts the server for Python buffers, shows its lenses, and brings :Stark.
--
--   require("stark").setup({ settings = { attempts = 30, device = "auto" } })
--
-- docs/editors.md of stark-lsp has the rest.

local M = {}

local NAME = "stark"
local ROOTS = { "pyproject.toml", "stark.toml", ".git" }

M.options = { cmd = { "stark-lsp" }, filetypes = { "python" }, settings = {} }

local function has(version)
  return vim.fn.has("nvim-" .. version) == 1
end

-- The server of a buffer, or of any other one: a decision is not about the buffer one looks at.
local function client_of(buffer)
  local found
  for _, client in ipairs((vim.lsp.get_clients or vim.lsp.get_active_clients)()) do
    if client.name == NAME then
      if vim.lsp.buf_is_attached(buffer, client.id) then
        return client
      end
      found = found or client
    end
  end
  return found
end

--- Starting -----------------------------------------------------------------------------------------

-- Before 0.12, Neovim asks for lenses when it is told to, not when they have changed.
local function refresh()
  local client = client_of(0)
  if client and vim.lsp.buf_is_attached(0, client.id) then
    vim.lsp.codelens.refresh(has("0.10") and { bufnr = 0 } or nil)
  end
end

local function show_lenses(buffer)
  if has("0.12") then
    vim.lsp.codelens.enable(true, { bufnr = buffer })
    return
  end
  refresh()
  vim.api.nvim_create_autocmd({ "BufEnter", "CursorHold", "InsertLeave" }, { buffer = buffer, callback = refresh })
end

local function handlers()
  local own = {
    -- Neovim would ask with a prompt that blocks typing; lenses, code actions and :Stark offer the same.
    ["window/showMessageRequest"] = function(_, params)
      vim.notify(params.message)
      return vim.NIL
    end,
  }
  if has("0.12") then
    return own
  end
  local function refreshing(method, handler, when)
    own[method] = function(failure, result, context, config)
      local answer = handler(failure, result, context, config)
      if not when or when(result) then
        vim.schedule(refresh)
      end
      return answer
    end
  end
  refreshing("window/showMessageRequest", own["window/showMessageRequest"])
  refreshing("textDocument/publishDiagnostics", vim.lsp.handlers["textDocument/publishDiagnostics"])
  refreshing("$/progress", vim.lsp.handlers["$/progress"], function(result)
    return result.value.kind == "end"
  end)
  return own
end

local function root(buffer)
  local name = vim.api.nvim_buf_get_name(buffer)
  local found = vim.fs and vim.fs.find(ROOTS, { upward = true, path = vim.fs.dirname(name) })[1]
  return found and vim.fs.dirname(found) or vim.fn.getcwd()
end

local function start(buffer)
  if vim.api.nvim_buf_get_name(buffer) == "" then
    return -- only files can be optimized
  end
  local config = {
    name = NAME,
    cmd = vim.list_extend(vim.deepcopy(M.options.cmd), { "serve" }),
    root_dir = root(buffer),
    settings = { stark = M.options.settings },
    init_options = { stark = M.options.settings }, -- before 0.8 the others reach no server
    handlers = handlers(),
    on_attach = function(_, attached)
      show_lenses(attached)
    end,
  }
  if vim.lsp.start then
    vim.lsp.start(config, { bufnr = buffer })
    return
  end
  local client = client_of(buffer)
  vim.lsp.buf_attach_client(buffer, client and client.id or vim.lsp.start_client(config))
end

--- Commands -----------------------------------------------------------------------------------------

local function send(command, argument, done)
  local client = client_of(0)
  if not client then
    vim.notify("STARK does not run. Open a Python file, and see :checkhealth vim.lsp.", vim.log.levels.WARN)
    return
  end
  local params = { command = "stark." .. command, arguments = { argument or vim.empty_dict() } }
  local function answered(failure, result)
    if failure then
      vim.notify(failure.message, vim.log.levels.ERROR)
    elseif done and result then
      done(result)
    end
  end
  if has("0.11") then
    client:request("workspace/executeCommand", params, answered)
  else
    client.request("workspace/executeCommand", params, answered)
  end
end

-- The class at the cursor.
local function here()
  return { uri = vim.uri_from_bufnr(0), line = vim.api.nvim_win_get_cursor(0)[1] - 1 }
end

local function terminal(...)
  local command = vim.list_extend(vim.deepcopy(M.options.cmd), { ... })
  vim.cmd("botright new")
  if has("0.11") then
    vim.fn.jobstart(command, { term = true })
  else
    vim.fn.termopen(command)
  end
end

local function plain(command)
  return function()
    send(command)
  end
end

local function numbers(words)
  local found = {}
  for name, value in words:gmatch("(%a+)[ =]+([%d.]+)") do
    found[name] = tonumber(value)
  end
  return found
end

-- What :Stark takes, with what comes behind it.
M.commands = {
  optimize = function()
    send("optimize", here())
  end,
  capture = function()
    send("captureInputs", here())
  end,
  review = function()
    send("review", nil, function(result)
      if type(result.path) == "string" then -- where Neovim cannot be told to show it
        vim.cmd("edit " .. vim.fn.fnameescape(result.path))
      end
    end)
  end,
  accept = plain("accept"),
  reject = function(words)
    send("reject", { reason = words })
  end,
  cancel = plain("cancel"),
  dismiss = plain("dismiss"),
  pause = plain("pause"),
  resume = plain("resume"),
  hint = function(words)
    send("hint", { text = words })
  end,
  budget = function(words)
    send("budget", numbers(words))
  end,
  status = plain("status"),
  report = plain("openReport"),
  judge = function(_, files)
    local class = files[2] and "::" .. files[2] or ""
    terminal("judge", vim.api.nvim_buf_get_name(0) .. class, files[1] or vim.fn.input("Judge which file? ", "", "file"))
  end,
  doctor = function()
    terminal("doctor")
  end,
}

local function complete(lead, line)
  if line:match("^%S+%s+judge%s") then
    return vim.fn.getcompletion(lead, "file")
  end
  local names = vim.tbl_filter(function(name)
    return vim.startswith(name, lead)
  end, vim.tbl_keys(M.commands))
  table.sort(names)
  return names
end

function M.setup(options)
  M.options = vim.tbl_deep_extend("force", M.options, options or {})
  vim.api.nvim_create_autocmd("FileType", {
    group = vim.api.nvim_create_augroup("stark", {}),
    pattern = M.options.filetypes,
    callback = function(event)
      start(event.buf)
    end,
  })
  vim.api.nvim_create_user_command("Stark", function(given)
    local command = M.commands[given.fargs[1]]
    if command then
      command(table.concat(given.fargs, " ", 2), vim.list_slice(given.fargs, 2))
    else
      vim.notify("STARK: no command " .. given.fargs[1], vim.log.levels.WARN)
    end
  end, { nargs = "+", complete = complete })
end

return M
