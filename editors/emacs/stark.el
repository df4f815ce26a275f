;;; stark.el --- Faster PyTorch modules by stark-lsp, with eglot  -*- lexical-binding: t -*-

;; Package-Requires: ((emacs "28.1") (eglot "1.9"))
;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; (stark-setup) makes stark-lsp eglot's server for Python.  If you have another one, leave that out and switch a buffer
;; to STARK with M-x stark-python-mode.  docs/editors.md of stark-lsp has the rest.

;;; Code:

(require 'eglot)
(require 'python)

(defgroup stark nil "Faster PyTorch modules by stark-lsp." :group 'tools :prefix "stark-")

(defcustom stark-program '("stark-lsp")
  "The program stark-lsp, with its first arguments."
  :type '(repeat string))

(defcustom stark-settings nil
  "Settings of the section `stark', as a property list: (:attempts 30 :device \"cpu\")."
  :type 'plist)

(defun stark--contact (&optional _interactive)
  "Return how eglot starts the server."
  `(,@stark-program "serve" :initializationOptions (:stark ,(or stark-settings eglot--{}))))

(define-derived-mode stark-python-mode python-mode "Python/STARK"
  "Python with stark-lsp as eglot's server, beside another one for `python-mode'.")
(put 'stark-python-mode 'eglot-language-id "python")
(add-to-list 'eglot-server-programs '(stark-python-mode . stark--contact))

;;;###autoload
(defun stark-setup ()
  "Make stark-lsp eglot's server for Python."
  (add-to-list 'eglot-server-programs '((python-mode python-ts-mode) . stark--contact)))

(defun stark--of-buffer (buffer)
  "Return the server of BUFFER, if it is this one: another may be eglot's there."
  (let* ((server (with-current-buffer buffer (eglot-current-server)))
         (commands (and server (plist-get (plist-get (eglot--capabilities server) :executeCommandProvider)
                                          :commands))))
    (and (seq-contains-p commands "stark.status") server)))

(defun stark--server ()
  "Return the server of this buffer, or of any other one; a decision may be made from anywhere."
  (or (stark--of-buffer (current-buffer))
      (seq-some #'stark--of-buffer (buffer-list))
      (user-error "STARK does not run: M-x eglot in a Python buffer starts it")))

(defun stark--send (command &rest argument)
  "Have the server carry out COMMAND with ARGUMENT, a property list; return its answer."
  (let ((server (stark--server)))
    ;; What was typed a moment ago comes first.
    (when (eglot-managed-p) (eglot--signal-textDocument/didChange))
    (jsonrpc-request server :workspace/executeCommand
                     (list :command (concat "stark." command) :arguments (vector (or argument eglot--{}))))))

(defun stark--here ()
  "Return what names the class at point."
  (list :uri (plist-get (eglot--TextDocumentIdentifier) :uri) :line (1- (line-number-at-pos nil t))))

(defun stark--compile (&rest arguments)
  "Show what stark-lsp says in a terminal to ARGUMENTS."
  (compilation-start (mapconcat #'shell-quote-argument (append stark-program arguments) " ")
                     nil (lambda (_mode) "*STARK*")))

(defun stark-optimize ()
  "Optimize the class at point."
  (interactive)
  (apply #'stark--send "optimize" (stark--here)))

(defun stark-capture ()
  "Find inputs of the class at point in a run of a script that uses it."
  (interactive)
  (apply #'stark--send "captureInputs" (stark--here)))

(defun stark-review ()
  "Show the proposal as a difference, with its evidence."
  (interactive)
  (let ((path (plist-get (stark--send "review") :path)))
    (when path (find-file-other-window path))))

(defun stark-accept () "Accept the proposal." (interactive) (stark--send "accept"))
(defun stark-reject (reason) "Reject the proposal for REASON." (interactive "sWhy? ") (stark--send "reject" :reason reason))
(defun stark-cancel () "Stop all runs." (interactive) (stark--send "cancel"))
(defun stark-dismiss () "Show no plans and proposals any more." (interactive) (stark--send "dismiss"))
(defun stark-pause () "Begin no further attempt." (interactive) (stark--send "pause"))
(defun stark-resume () "Go on with the run that was paused." (interactive) (stark--send "resume"))
(defun stark-hint (text) "Tell the agents TEXT." (interactive "sTell the agents: ") (stark--send "hint" :text text))
(defun stark-budget (attempts) "Let the run make ATTEMPTS." (interactive "nAttempts: ") (stark--send "budget" :attempts attempts))
(defun stark-status () "Say where the runs stand." (interactive) (stark--send "status"))

(defun stark-report ()
  "Show the newest run as a page in a browser."
  (interactive)
  (let ((answer (stark--send "openReport")))
    ;; eglot may have been told to open it.
    (when (equal (plist-get answer :status) "written") (browse-url-of-file (plist-get answer :path)))))

(defun stark-judge (candidate)
  "Judge the class ModelNew of the file CANDIDATE against the class of this buffer's file."
  (interactive "fJudge which file? ")
  (stark--compile "judge" buffer-file-name (expand-file-name candidate)))

(defun stark-doctor ()
  "Say what is there, what is missing, and how to mend it."
  (interactive)
  (stark--compile "doctor"))

(provide 'stark)
;;; stark.el ends here
