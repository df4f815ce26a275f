-- Goes through the flow as a user would, with Neovim's own functions for lenses, hovers and code actions, and writes
-- what it saw as JSON to $STARK_FLOW_RESULT. The configuration is the one of docs/editors.md.

local seen = { messages = {} }

vim.notify = function(message)
  table.insert(seen.messages, message)
end

local function finish(failure)
  seen.error = failure
  if failure then
    seen.error = failure .. "\nmessages: " .. vim.inspect(seen.messages)
  end
  local file = assert(io.open(os.getenv("STARK_FLOW_RESULT"), "w"))
  file:write(vim.json and vim.json.encode(seen) or vim.fn.json_encode(seen))
  file:close()
  vim.cmd("qa!")
end

local function wait_for(what, seconds, condition)
  if not vim.wait(seconds * 1000, condition, 50) then
    error("waited in vain for " .. what)
  end
end

-- The lenses as they are on the screen: virtual text.
local function shown_lenses()
  vim.cmd("redraw") -- from Neovim 0.12, lenses are made when a window is drawn
  local texts = {}
  for _, namespace in pairs(vim.api.nvim_get_namespaces()) do
    for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, namespace, 0, -1, { details = true })) do
      -- Beside the line, or from Neovim 0.12 on a line of its own.
      for _, line in ipairs({ mark[4].virt_text or {}, unpack(mark[4].virt_lines or {}) }) do
        for _, chunk in ipairs(line) do
          table.insert(texts, { line = mark[2], text = chunk[1] })
        end
      end
    end
  end
  return texts
end

local function lens_on(line, title)
  for _, lens in ipairs(shown_lenses()) do
    if lens.line == line and lens.text:find(title, 1, true) then
      return true
    end
  end
  return false
end

local function stark_diagnostics()
  return vim.tbl_filter(function(diagnostic)
    return diagnostic.source == "STARK"
  end, vim.diagnostic.get(0))
end

local function text()
  return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n")
end

-- The floating window that a hover opens.
local function float()
  for _, window in ipairs(vim.api.nvim_list_wins()) do
    if vim.api.nvim_win_get_config(window).relative ~= "" then
      return table.concat(vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(window), 0, -1, false), "\n")
    end
  end
end

local function go_to(line)
  vim.api.nvim_win_set_cursor(0, { line + 1, 0 })
end

local function flow()
  local class_line = vim.fn.search("^class Model", "nw") - 1
  wait_for("the lens", 30, function()
    return lens_on(class_line, "Optimize with STARK")
  end)
  seen.lenses = shown_lenses()

  go_to(class_line)
  vim.cmd("Stark optimize")
  wait_for("a diagnostic", 200, function()
    return #stark_diagnostics() > 0
  end)
  wait_for("the offer", 200, function()
    local last = seen.messages[#seen.messages] or ""
    assert(not last:find("All 2 attempts were made", 1, true) or last:find("as fast as eager", 1, true), last)
    return last:find("as fast as eager", 1, true)
  end)
  seen.offer = seen.messages[#seen.messages]
  -- Nobody types or moves meanwhile.
  wait_for("the lenses of the proposal", 10, function()
    return lens_on(class_line, "Accept")
  end)
  for _, answer in pairs(vim.lsp.buf_request_sync(0, "workspace/executeCommand", { command = "stark.status" }, 10000)) do
    seen.attempts = answer.result.runs[1].budget.attempts
  end

  vim.cmd("Stark review")
  wait_for("the review", 20, function()
    return vim.api.nvim_buf_get_name(0):find("%.diff$")
  end)
  seen.review = text()
  vim.cmd("buffer #")
  seen.completed = vim.fn.getcompletion("Stark re", "cmdline")
  vim.cmd("Stark report")
  wait_for("the report", 20, function()
    return vim.fn.glob(os.getenv("STARK_STATE_DIR") .. "/reports/*.html") ~= ""
  end)
  vim.cmd("Stark judge nowhere.py")
  wait_for("what is judged", 30, function()
    seen.judged = text()
    return seen.judged:find("no such file", 1, true)
  end)
  vim.cmd("bwipeout!")
  local diagnostic = stark_diagnostics()[1]
  seen.diagnostic = {
    line = diagnostic.lnum,
    text = vim.api.nvim_buf_get_lines(0, diagnostic.lnum, diagnostic.lnum + 1, false)[1],
    message = diagnostic.message,
    severity = diagnostic.severity,
  }

  -- The anchors move with the text.
  vim.api.nvim_buf_set_lines(0, 0, 0, false, { "# a new first line" })
  wait_for("the diagnostic to move", 10, function()
    local now = stark_diagnostics()[1]
    return now and now.lnum == diagnostic.lnum + 1
  end)
  class_line = class_line + 1

  go_to(diagnostic.lnum + 1)
  vim.lsp.buf.hover()
  wait_for("the hover", 10, function()
    seen.hover = float()
    return seen.hover
  end)

  vim.ui.select = function(items, options, choose)
    for _, item in ipairs(items) do
      local title = options.format_item(item)
      if title:find("^Accept") then
        seen.action = title
        return choose(item)
      end
    end
    error("there is no action to accept among " .. vim.inspect(vim.tbl_map(options.format_item, items)))
  end
  go_to(class_line)
  vim.lsp.buf.code_action()
  wait_for("the accepted class", 20, function()
    return text():find("class ModelNew", 1, true)
  end)
  wait_for("the diagnostics to vanish", 10, function()
    return #stark_diagnostics() == 0
  end)
  seen.text = text()
  vim.cmd("undo")
  seen.undone = text()
end

local ok, failure = xpcall(flow, debug.traceback)
finish(not ok and failure or nil)
