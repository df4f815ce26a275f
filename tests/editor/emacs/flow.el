;;; flow.el --- the flow in a real Emacs with eglot  -*- lexical-binding: t -*-

;; Goes through the flow as a user would and writes what it saw as JSON to $STARK_FLOW_RESULT.
;; The configuration is the one of docs/editors.md, loaded before this file.

(require 'json)
(require 'cl-lib)
(require 'flymake)

(defvar flow-seen nil "What was seen, as an alist.")
(defvar flow-message nil "The last message in the echo area.")

(defun flow-note (key value) (push (cons key value) flow-seen))

(defun flow-wait (what seconds condition)
  "Wait until CONDITION returns non-nil and return that; an error names WHAT after SECONDS."
  (let ((deadline (+ (float-time) seconds)) (value nil))
    (while (not (setq value (funcall condition)))
      (when (> (float-time) deadline) (error "waited in vain for %s" what))
      (when (string-match-p "(type=1)" (or flow-message "")) (error "%s" flow-message))
      (accept-process-output nil 0.05)
      ;; eglot sends edits when Emacs is idle, which it never is in batch mode.
      (when (eglot-current-server) (eglot--signal-textDocument/didChange)))
    value))

;; Emacs in batch mode has no minibuffer: the user's choice is made here.
(defvar flow-answer nil)
(advice-add 'completing-read :override
            (lambda (_prompt collection &rest _)
              (cl-find-if (lambda (title) (string-prefix-p flow-answer title)) (mapcar #'car collection))))
;; eglot asks before it applies an edit of the server.
(advice-add 'y-or-n-p :override #'always)
(advice-add 'message :before
            (lambda (format &rest arguments)
              (when format (setq flow-message (apply #'format-message format arguments)))))

(defun flow-hover ()
  "The hover at point as eldoc shows it."
  (let ((text nil))
    (eglot-hover-eldoc-function (lambda (doc &rest _) (setq text doc)))
    (flow-wait "the hover" 10 (lambda () text))
    (substring-no-properties text)))

(defun flow-run ()
  (find-file (getenv "STARK_FLOW_MODULE"))
  (funcall (intern (getenv "STARK_FLOW_MODE")))
  (setq eglot-sync-connect 30 eglot-connect-timeout 60 eglot-send-changes-idle-time 0.05)
  (call-interactively #'eglot)
  (flymake-mode 1)
  (goto-char (point-min))
  (search-forward "class Model")
  (flow-note 'actions
             (vconcat (mapcar (lambda (action) (plist-get action :title)) (eglot-code-actions (point) (point)))))
  (unless (getenv "STARK_FLOW_LOOK_ONLY") (flow-optimize))
  (eglot-shutdown (eglot-current-server)))

(defun flow-optimize ()
  (setq flow-answer "Optimize with STARK"
        ;; As after a key press: after a click eglot shows a popup menu.
        last-nonmenu-event ?\r)
  (call-interactively #'eglot-code-actions)
  (flow-wait "a diagnostic" 200 #'flymake-diagnostics)
  (flow-note 'offer
             (flow-wait "the offer" 200
                        (lambda () (and (string-match-p "as fast as eager" (or flow-message "")) flow-message))))

  (let ((diagnostic (car (flymake-diagnostics))))
    (flow-note 'diagnostic (substring-no-properties (flymake-diagnostic-text diagnostic)))
    (goto-char (flymake-diagnostic-beg diagnostic))
    (flow-note 'line (buffer-substring-no-properties (line-beginning-position) (line-end-position)))
    (flow-note 'hover (flow-hover)))

  (save-window-excursion
    (call-interactively #'stark-review)
    (flow-note 'review (buffer-substring-no-properties (point-min) (point-max))))
  (flow-note 'told flow-message)
  (cl-letf (((symbol-function 'browse-url-of-file) (lambda (file) (flow-note 'report file))))
    (stark-report))
  (save-window-excursion
    (stark-judge "nowhere.py")
    (flow-note 'judged
               (flow-wait "what is judged" 30
                          (lambda () (with-current-buffer "*STARK*"
                                       (and (not (get-buffer-process (current-buffer)))
                                            (buffer-substring-no-properties (point-min) (point-max))))))))
  (call-interactively #'stark-accept)
  (flow-wait "the accepted class" 20
             (lambda () (save-excursion (goto-char (point-min)) (search-forward "class ModelNew" nil t))))
  (flow-wait "the diagnostics to vanish" 10 (lambda () (null (flymake-diagnostics))))
  (flow-note 'text (buffer-substring-no-properties (point-min) (point-max)))
  (primitive-undo 1 buffer-undo-list)
  (flow-note 'undone (buffer-substring-no-properties (point-min) (point-max)))
  (set-buffer-modified-p nil))

(condition-case failure
    (flow-run)
  (error (flow-note 'error (format "%S" failure))))
(with-temp-file (getenv "STARK_FLOW_RESULT") (insert (json-encode flow-seen)))
(kill-emacs 0)
;;; flow.el ends here
