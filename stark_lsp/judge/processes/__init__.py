"""Children: started, asked, limited, ended."""
