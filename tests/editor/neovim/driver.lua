-- What a test asks of a running Neovim, by `Drive(name, arguments as JSON)`: to look at the screen, or to do what a user
-- would do, with Neovim's own functions. The answers are JSON. The configuration is the one of docs/editors.md.

local drive = {}

-- Everything said so far.
function drive.messages()
  return vim.fn.execute("messages")
end

-- The lenses as they are on the screen: virtual text.
function drive.offered()
  vim.cmd("redraw") -- from Neovim 0.12, lenses are made when a window is drawn
  local texts = {}
  for _, namespace in pairs(vim.api.nvim_get_namespaces()) do
    for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, namespace, 0, -1, { details = true })) do
      -- Beside the line, or from Neovim 0.12 on a line of its own.
      for _, line in ipairs({ mark[4].virt_text or {}, unpack(mark[4].virt_lines or {}) }) do
        for _, chunk in ipairs(line) do
          table.insert(texts, chunk[1])
        end
      end
    end
  end
  return table.concat(texts, "\n")
end

function drive.marks()
  local found = {}
  for _, diagnostic in ipairs(vim.diagnostic.get(0)) do
    if diagnostic.source == "STARK" then
      table.insert(found, diagnostic.message)
    end
  end
  return table.concat(found, "\n")
end

-- What a status line would show.
function drive.progress()
  if vim.lsp.status then
    return vim.lsp.status()
  end
  return table.concat(vim.tbl_map(function(item)
    return ("%s %s"):format(item.title or item.name, item.message or "")
  end, vim.lsp.util.get_progress_messages()), "\n")
end

function drive.choose(title)
  vim.ui.select = function(items, options, choose)
    for _, item in ipairs(items) do
      if options.format_item(item):sub(1, #title) == title then
        return choose(item)
      end
    end
    vim.notify("there is no such action")
  end
  vim.fn.cursor(vim.fn.search("^class Model\\>", "nw"), 1)
  vim.lsp.buf.code_action()
end

function drive.command(name, text)
  vim.cmd(("Stark %s %s"):format(name, text))
end

function drive.text()
  return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n") .. "\n"
end

function drive.replace(before, after)
  for number, line in ipairs(vim.api.nvim_buf_get_lines(0, 0, -1, false)) do
    local from, to = line:find(before, 1, true)
    if from then
      vim.api.nvim_buf_set_text(0, number - 1, from - 1, number - 1, to, { after })
      return
    end
  end
  error("not in the text: " .. before)
end

function drive.save()
  vim.cmd("write")
end

-- As a file manager does.
function drive.rename(path)
  local old = vim.api.nvim_get_current_buf()
  assert(vim.fn.rename(vim.api.nvim_buf_get_name(0), path) == 0)
  vim.cmd("edit " .. vim.fn.fnameescape(path))
  vim.cmd("bwipeout " .. old)
end

-- After the server is gone.
function drive.again()
  vim.cmd("edit")
end

function drive.quit()
  vim.schedule(function()
    vim.cmd("qa!")
  end)
end

function Drive(name, arguments)
  return vim.json.encode({ answer = drive[name](unpack(vim.json.decode(arguments))) or "" })
end
