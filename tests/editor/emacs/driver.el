;;; driver.el --- what a test asks of a running Emacs  -*- lexical-binding: t -*-

;; A test calls (drive NAME ARGUMENTS...) by emacsclient: to look at what the user sees, or to do what a user would do.
;; The answer is written as JSON to $STARK_DRIVE_ANSWER.  The configuration is the one of docs/editors.md.

(require 'json)
(require 'cl-lib)
(require 'flymake)

(setq server-socket-dir (getenv "STARK_DRIVE_SOCKET")
      eglot-sync-connect 30
      eglot-connect-timeout 60
      eglot-send-changes-idle-time 0.05
      make-backup-files nil
      create-lockfiles nil
      message-log-max t)

;; There is nobody at the minibuffer: the user's choice is made here.
(defvar drive-wanted nil)
(advice-add 'completing-read :override
            (lambda (_prompt collection &rest _)
              (or (cl-find-if (lambda (title) (string-prefix-p drive-wanted title)) (mapcar #'car collection))
                  (error "There is no such action"))))
;; eglot asks before it applies an edit of the server.
(advice-add 'y-or-n-p :override #'always)

(defvar drive-buffer nil "The user's buffer.")

(defun drive-open (path)
  (setq drive-buffer (find-file-noselect path))
  (set-window-buffer (selected-window) drive-buffer)
  (set-buffer drive-buffer)
  (unless (eglot-managed-p) (call-interactively #'eglot))
  (flymake-mode 1))

(defun drive-messages ()
  (with-current-buffer (messages-buffer) (buffer-substring-no-properties (point-min) (point-max))))

(defun drive-offered ()
  "The code actions on the class."
  (goto-char (point-min))
  (re-search-forward "^class Model\\>")
  (mapconcat (lambda (action) (plist-get action :title))
             (and (eglot-current-server) (eglot-code-actions (point) (point)))
             "\n"))

(defun drive-choose (title)
  (goto-char (point-min))
  (re-search-forward "^class Model\\>")
  ;; As after a key press: after a click eglot shows a popup menu.
  (setq drive-wanted title last-nonmenu-event ?\r)
  (call-interactively #'eglot-code-actions))

(defun drive-marks ()
  (mapconcat (lambda (diagnostic) (substring-no-properties (flymake-diagnostic-text diagnostic)))
             (flymake-diagnostics)
             "\n"))

(defun drive-command (name text)
  (let ((command (intern (concat "stark-" name))))
    (if (string-empty-p text) (funcall command) (funcall command text))))

(defun drive-text () (buffer-substring-no-properties (point-min) (point-max)))

(defun drive-replace (before after)
  (goto-char (point-min))
  (search-forward before)
  (replace-match after t t)
  (eglot--signal-textDocument/didChange))

(defun drive-save () (save-buffer))

(defun drive-rename (path)
  (rename-file buffer-file-name path)
  (let ((old drive-buffer))
    (drive-open path)
    (kill-buffer old)))

(defun drive-again () "eglot starts a server that is gone by itself.")

(defun drive-quit ()
  (with-current-buffer drive-buffer (set-buffer-modified-p nil))
  (run-at-time 0 nil (lambda ()
                       (with-current-buffer drive-buffer (ignore-errors (eglot-shutdown (eglot-current-server))))
                       (kill-emacs 0))))

(defun drive (name &rest arguments)
  (let ((answer (with-current-buffer (or drive-buffer (current-buffer))
                  (apply (intern (concat "drive-" name)) arguments)))
        (coding-system-for-write 'utf-8))
    (with-temp-file (getenv "STARK_DRIVE_ANSWER")
      (insert (json-encode (list (cons 'answer (and (stringp answer) answer))))))))
;;; driver.el ends here
